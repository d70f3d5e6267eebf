#!/usr/bin/env bash
# launch/test-debs.sh [FOLDER]: installs the packages of FOLDER (default: build/debs/packages, from
# launch/build-debs.sh) in a bare Debian of the same release, and tries them there: the program alone and on two ranks,
# then a program built with CMake and with pkg-config, and one in C. The bare Debian is discarded.
#
# Exit status: 77 if a bare Debian cannot be made, with the reason, so that tests count as skipped.
set -euo pipefail

root="$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")"

# Runs inside the bare Debian, as its root. All files needed are in /try.
install() {
  env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 install -y --no-install-recommends "$@" >/dev/null
}
try_inside() {
  cd /try
  # shellcheck source=launch/environment.sh
  source launch/environment.sh
  install ./evenkeel_*.deb
  evenkeel --version
  echo '{source: {kind: synthetic, samples: 64}, batch: {global_batch: 32}}' >job.yaml
  mpirun -n 2 evenkeel run job.yaml

  install ./libevenkeel-dev_*.deb ./libevenkeel[0-9]*.deb cmake g++ make pkg-config
  cmake -S consumer -B built -DCOMPONENT=service >/dev/null
  cmake --build built
  mpirun -n 2 built/consumer
  # shellcheck disable=SC2046 # words
  g++ -std=c++20 consumer/plan.cpp $(pkg-config --cflags --libs evenkeel-plan) -o plan
  ./plan
  gcc -std=c11 c_consumer/c.c -levenkeel -o plan_in_c
  ./plan_in_c
  mpicc -std=c11 c_consumer/c_mpi.c -levenkeel_mpi -levenkeel -o service_in_c
  mpirun -n 2 ./service_in_c
}

if [[ "${1:-}" == --inside ]]; then
  try_inside
  exit
fi

folder="${1:-$root/build/debs/packages}"
if ! compgen -G "$folder/evenkeel_*.deb" >/dev/null; then
  echo "test-debs: there are no packages in $folder: launch/build-debs.sh builds them" >&2
  exit 1
fi
# shellcheck source=/dev/null
release="$(. /etc/os-release && echo "$ID $VERSION_CODENAME")"
if [[ "$release" != debian\ * ]]; then
  echo "test-debs: skipped: this machine runs $release, and packages fit the Debian that built them" >&2
  exit 77
fi
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cp -r "$folder"/*.deb "$root/launch" "$root"/tests/package/{consumer,c_consumer} "$work"
"$root/launch/bare-debian.sh" "${release#* }" "$work" /try/launch/test-debs.sh --inside
echo "The packages work on a bare Debian (${release#* })."
