#!/usr/bin/env bash
# find_package.sh COMPONENT: builds the consumer with find_package and runs it. The planner's consumer is built as on a
# machine that has only the planner's dependencies.
set -euo pipefail
# shellcheck source=tests/package/environment.sh
source "$(dirname "$0")/environment.sh"
component=$1 build="$WORK/find_package_$1"

consumer=consumer hidden=()
if [[ $component == c || $component == c_mpi ]]; then
  consumer=c_consumer # has no C++
fi
if [[ $component == plan || $component == c ]]; then
  for package in MPI Boost spdlog Torch fmt simdjson; do hidden+=("-DCMAKE_DISABLE_FIND_PACKAGE_$package=ON"); done
fi
rm -rf "$build"
"$CMAKE" -G "$GENERATOR" -S "$SOURCE/tests/package/$consumer" -B "$build" -DCMAKE_BUILD_TYPE="$BUILD_TYPE" \
  -DCMAKE_CXX_COMPILER="$CXX" -DCMAKE_CXX_FLAGS="${flags[*]}" -DCMAKE_C_FLAGS="${flags[*]}" -DCMAKE_PREFIX_PATH="$PREFIX" -DCOMPONENT="$component" \
  "${hidden[@]}"
"$CMAKE" --build "$build"
run_consumer "$component" "$build/consumer"
