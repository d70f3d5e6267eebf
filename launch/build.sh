#!/usr/bin/env bash
# launch/build.sh [--with-tests] [PRESET [TARGET...]]: configures and builds a preset (default: release), all of it or
# some targets, in build/PRESET. Tests and benchmarks, which need further packages (install-packages.sh --tests), are
# included with --with-tests, or if the folder already has them.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
with_tests=""
if [[ "${1:-}" == --with-tests ]]; then
  with_tests=ON
  shift
fi
preset="${1:-release}"
targets=("${@:2}")

[[ -n "$with_tests" || -f "$root/build/$preset/CMakeCache.txt" ]] || with_tests=OFF
options=()
if [[ -n "$with_tests" ]]; then
  options=(-DEVENKEEL_BUILD_TESTS="$with_tests" -DEVENKEEL_BUILD_BENCHMARKS="$with_tests")
fi

echo "Building ${targets[*]:-everything} (preset $preset)"
cmake -S "$root" --preset "$preset" "${options[@]}" </dev/null >/dev/null
cmake --build "$root/build/$preset" --target "${targets[@]:-all}" </dev/null
