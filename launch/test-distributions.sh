#!/usr/bin/env bash
# launch/test-distributions.sh [RELEASE...]: on a bare Debian of each RELEASE (default: bookworm and trixie), makes a
# clone of the committed files, and runs launch/quickstart.sh and launch/test.sh in it. Prints the table of
# docs/installing.md: the versions on each platform, how long both took with this many cores, and their results. Takes
# half an hour per release on two cores.
#
# Exit status: 1 if something failed; 77 if a bare Debian cannot be made, with the reason, so that tests count as
# skipped.
set -euo pipefail

root="$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")"

minutes() {
  echo "$((($1 + 30) / 60)) min"
}

# Runs inside the bare Debian, as its root. Writes a line of the table to /try/out/line.
try_inside() {
  local started tested status=0 told
  apt-get -qq -o Dpkg::Use-Pty=0 install -y --no-install-recommends git ca-certificates >/dev/null
  cd /try/evenkeel
  started=$SECONDS
  launch/quickstart.sh || status=$?
  tested=$SECONDS
  if ((status == 0)); then
    launch/test.sh >/try/out/tests.log 2>&1 || status=$?
    if ((status == 0)); then tail -n 60 /try/out/tests.log; else cat /try/out/tests.log; fi
    told="$(sed -n 's/^\([0-9]*% tests passed.* of [0-9]*\)$/\1/p' /try/out/tests.log)"
  else
    told="quickstart.sh ends with status $status"
  fi
  version() { "$@" 2>/dev/null || echo none; }
  # shellcheck source=/dev/null
  echo "| $(. /etc/os-release && echo "$NAME ${VERSION_ID:-}" | sed 's| GNU/Linux||') | $(version g++ -dumpfullversion) | $(
    mpirun --version | sed -n '1s/.* //p'
  ) | $(version python3 -c 'import platform; print(platform.python_version())') | $(
    version python3 -c 'import numpy; print(numpy.__version__)'
  ) | $(version python3 -c 'import torch; print(torch.__version__)') | $(minutes $((tested - started))) | $(
    minutes $((SECONDS - tested))
  ) | ${told:-test.sh ends with status $status} |" >/try/out/line
  return "$status"
}

if [[ "${1:-}" == --inside ]]; then
  export DEBIAN_FRONTEND=noninteractive
  try_inside
  exit
fi

releases=("$@")
if (($# == 0)); then releases=(bookworm trixie); fi
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
git clone -q --no-hardlinks "$root" "$work/evenkeel"
cp "${BASH_SOURCE[0]}" "$work/try.sh"
status=0 lines=()
for release in "${releases[@]}"; do
  ended=0
  "$root/launch/bare-debian.sh" "$release" "$work" /try/try.sh --inside || ended=$?
  ((ended != 77)) || exit 77
  ((ended == 0)) || status=1
  lines+=("$(cat "$work/out/line" 2>/dev/null || echo "| Debian $release: see above |")")
done
echo "| platform | GCC | Open MPI | Python | NumPy | PyTorch | quickstart.sh | test.sh | tests |"
echo "|---|---|---|---|---|---|---|---|---|"
printf '%s\n' "${lines[@]}"
exit "$status"
