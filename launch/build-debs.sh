#!/usr/bin/env bash
# launch/build-debs.sh: installs missing packages, and builds the packages evenkeel, libevenkeel0, libevenkeel-dev and,
# if libtorch is installed, libevenkeel-torch-dev, for the Debian on which it runs. It writes them to
# build/debs/packages.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
"$root/launch/install-packages.sh" --debs
"$root/launch/build.sh" debs
cd "$root/build/debs"
rm -rf packages
cpack -G DEB </dev/null
