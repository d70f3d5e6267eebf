#!/usr/bin/env bash
# launch/build-debs.sh: installs what is missing, and builds the packages evenkeel, libevenkeel0, libevenkeel-dev and, where
# libtorch is installed, libevenkeel-torch-dev, for the Debian that this runs on. They are left in build/debs/packages.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
"$root/launch/install-packages.sh" --debs
"$root/launch/build.sh" debs
cd "$root/build/debs"
rm -rf packages
cpack -G DEB </dev/null
