#!/usr/bin/env bash
# launch/test-debs.sh [FOLDER]: installs the packages of FOLDER (build/debs/packages, which launch/build-debs.sh makes)
# in a bare Debian of the same release, and tries there what they are for: the program alone and on two ranks, then a
# program that is built with CMake and with pkg-config, and one in C. The bare Debian is thrown away.
#
# Exit status: 77 where no bare Debian can be made, with the reason, so that tests count as skipped.
set -euo pipefail

script="$(realpath "${BASH_SOURCE[0]}")"
root="$(dirname "$(dirname "$script")")"

skip() {
  echo "test-debs: skipped: no bare Debian can be made here: $1" >&2
  exit 77
}

# What is tried, inside the bare Debian, as its root. Everything needed lies in /try.
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
  mpicc -std=c11 c_consumer/main.c -levenkeel -o in_c
  mpirun -n 2 ./in_c
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
[[ "$release" == debian\ * ]] || skip "this machine runs $release, and packages fit the Debian that built them"
command -v mmdebstrap >/dev/null || skip "mmdebstrap is not installed; launch/install-packages.sh --debs installs it"

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
mkdir "$work/try"
cp -r "$folder"/*.deb "$root/launch" "$root"/tests/package/{consumer,c_consumer} "$work/try"
# The mirrors that this machine uses for its own packages of Debian.
# shellcheck disable=SC2016 # apt's words
apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' |
  sort -u >"$work/sources"
[[ -s "$work/sources" ]] || skip "apt knows no mirror of Debian"

# Whatever fails before the first hook is the bare Debian's own. A mirror may be a frozen one, whose lists are old.
status=0
mmdebstrap --variant=apt --format=null --aptopt='Acquire::Check-Valid-Until "false"' --aptopt='Acquire::Retries "3"' \
  --customize-hook="touch $work/made" --customize-hook="copy-in $work/try /" \
  --customize-hook='env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$1" /try/launch/test-debs.sh --inside' \
  "${release#* }" /dev/null "$work/sources" </dev/null 2>"$work/said" || status=$?
if [[ ! -e "$work/made" ]]; then
  skip "mmdebstrap fails: $(grep -E '^(W|E|Err)[: ]' "$work/said" | head -n 3 | tr '\n' ' ')"
fi
cat "$work/said" >&2
((status == 0)) || exit 1
echo "The packages work on a bare Debian (${release#* })."
