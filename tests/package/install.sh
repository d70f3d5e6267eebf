#!/usr/bin/env bash
# Installs the build, moves the installation, and checks that no file contains the old path.
set -euo pipefail
# shellcheck source=tests/package/environment.sh
source "$(dirname "$0")/environment.sh"

rm -rf "$WORK/first" "$WORK/elsewhere"
mkdir -p "$WORK/elsewhere"
"$CMAKE" --install "$BUILD" --prefix "$WORK/first" >/dev/null
mv "$WORK/first" "$PREFIX"

text_only=-I
[[ "$BUILD_TYPE$SANITIZE" == Release ]] && text_only=-a # other builds contain the paths of sources, for debuggers
if grep -rl "$text_only" -e "$SOURCE/" -e "$BUILD/" -e "$WORK/" "$PREFIX"; then
  echo "These files were installed with paths of the build in them" >&2
  exit 1
fi
