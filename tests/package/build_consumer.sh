#!/usr/bin/env bash
# build_consumer.sh CMAKE BUILD_DIR CONSUMER_SOURCE WORK_DIR BUILD_TYPE SANITIZE GENERATOR: installs the build to a
# prefix of its own, builds the consumer against it with the same generator and runs it.
set -euo pipefail
cmake=$1 build=$2 source=$3 work=$4 type=$5 sanitize=$6 generator=$7

flags=()
case "$sanitize" in
  address) flags=(-DCMAKE_CXX_FLAGS="-fsanitize=address,undefined") ;;
  thread) flags=(-DCMAKE_CXX_FLAGS="-fsanitize=thread") ;;
esac
rm -rf "$work/prefix" "$work/consumer"
"$cmake" --install "$build" --prefix "$work/prefix" >/dev/null
"$cmake" -G "$generator" -S "$source" -B "$work/consumer" -DCMAKE_BUILD_TYPE="$type" -DCMAKE_PREFIX_PATH="$work/prefix" "${flags[@]}"
"$cmake" --build "$work/consumer"
"$work/consumer/consumer"
"$work/prefix/bin/evenkeel" --version
