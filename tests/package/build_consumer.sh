#!/usr/bin/env bash
# build_consumer.sh CMAKE BUILD_DIR CONSUMER_SOURCE WORK_DIR BUILD_TYPE SANITIZE GENERATOR: installs the build, moves
# what was installed elsewhere, builds the consumer against it with the same generator, and runs it and the program.
set -euo pipefail
cmake=$1 build=$2 source=$3 work=$4 type=$5 sanitize=$6 generator=$7

flags=()
case "$sanitize" in
  address) flags=(-DCMAKE_CXX_FLAGS="-fsanitize=address,undefined") ;;
  thread) flags=(-DCMAKE_CXX_FLAGS="-fsanitize=thread") ;;
esac
prefix="$work/elsewhere/prefix"
rm -rf "$work/prefix" "$work/elsewhere" "$work/consumer"
mkdir -p "$work/elsewhere"
"$cmake" --install "$build" --prefix "$work/prefix" >/dev/null
mv "$work/prefix" "$prefix"
"$cmake" -G "$generator" -S "$source" -B "$work/consumer" -DCMAKE_BUILD_TYPE="$type" -DCMAKE_PREFIX_PATH="$prefix" "${flags[@]}"
"$cmake" --build "$work/consumer"
"$work/consumer/consumer"

cd / # nothing of the source tree is beside it
"$prefix/bin/evenkeel" --version
"$prefix/bin/evenkeel" synth --samples 16 --out "$work/elsewhere/rollouts.jsonl"
"$prefix/bin/evenkeel" plan --lengths "$work/elsewhere/rollouts.jsonl" --set mesh.dp=2 --set micro_batch.max_tokens=65536
