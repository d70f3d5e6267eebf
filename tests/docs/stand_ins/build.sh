#!/usr/bin/env bash
# Replaces launch/build.sh when the commands of the documentation are checked: build/release already exists. Refuses any other
# preset, and targets that do not exist.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
if [[ "${1:-}" == --with-tests ]]; then shift; fi
preset="${1:-release}"
targets=("${@:2}")

echo "Building ${targets[*]:-everything} (preset $preset)"
[[ "$preset" == release ]] || {
  echo "build: only the preset release is here, not '$preset'" >&2
  exit 1
}
for target in "${targets[@]}"; do
  [[ -x "$root/build/release/bin/$target" ]] || {
    echo "build: build/release/bin has no '$target'" >&2
    exit 1
  }
done
