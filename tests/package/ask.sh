#!/usr/bin/env bash
# ask.sh MPI_BUILT TORCH_BUILT: calls find_package for the installed package in many ways, most of which are errors.
set -euo pipefail
# shellcheck source=tests/package/environment.sh
source "$(dirname "$0")/environment.sh"

partial="$WORK/partial"
rm -rf "$partial" "$WORK/asking" "$WORK/refused"
cp -r "$PREFIX" "$partial"
find "$partial" -name 'EvenkeelTargets-*' | grep -E 'EvenkeelTargets-(service|job|torch|c)' | xargs -r rm
"$CMAKE" -G "$GENERATOR" -S "$SOURCE/tests/package/asking" -B "$WORK/asking" -DCMAKE_PREFIX_PATH="$PREFIX" \
  -DPARTIAL="$partial" -DMPI_BUILT="$1" -DTORCH_BUILT="$2"

# CMake's error for an unknown component must contain Evenkeel's reason.
if output="$("$CMAKE" -G "$GENERATOR" -S "$SOURCE/tests/package/consumer" -B "$WORK/refused" \
  -DCMAKE_PREFIX_PATH="$PREFIX" -DCOMPONENT=nonsense 2>&1)"; then
  echo "A component that nobody knows was found" >&2
  exit 1
fi
[[ "$output" == *"Evenkeel has no component nonsense."* ]]
