#!/usr/bin/env bash
# launch/build.sh [PRESET [TARGET...]]: configures and builds a preset (release unless given), all of it or some
# targets, in build/PRESET.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
preset="${1:-release}"
targets=("${@:2}")

echo "Building ${targets[*]:-everything} (preset $preset)"
cmake -S "$root" --preset "$preset" </dev/null >/dev/null
cmake --build "$root/build/$preset" --target "${targets[@]:-all}" </dev/null
