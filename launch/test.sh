#!/usr/bin/env bash
# Installs missing packages, builds, and tests: every test program, and MPI suites on two and four ranks, in 12 to 25
# minutes on two cores. Prints at the end which tests it left out.
#
#   --all          also tests that are left out otherwise, except those that take hours: other numbers of ranks,
#                  simulated nodes, packages, documentation, whole jobs
#   --preset NAME  tests another preset than release: ci, debug, asan or tsan
#
# Passes all other arguments to ctest: launch/test.sh --preset asan -R plan_test
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# shellcheck source=launch/environment.sh
source "$root/launch/environment.sh"

preset=release
labels=quick
targets=(quick_tests)
ctest_arguments=()
while (($#)); do
  case "$1" in
    --all)
      labels='quick|full'
      targets=(all)
      shift
      ;;
    --preset)
      preset="${2:?--preset needs a name: release, ci, debug, asan or tsan}"
      shift 2
      ;;
    --preset=*)
      preset="${1#*=}"
      shift
      ;;
    *)
      ctest_arguments+=("$1")
      shift
      ;;
  esac
done

# Lists tests with other labels, counted by the part of their names before the first dot.
left_out() {
  ctest --preset "$preset" -C nightly -N -LE "$labels" | sed -n 's/^ *Test *#[0-9]*: \([^.]*\).*/\1/p' | sort | uniq -c |
    awk '{printf "%s%s (%s)", separator, $2, $1; separator = ", "} END {print "."}'
}

"$root/launch/install-packages.sh" --tests
"$root/launch/build.sh" --with-tests "$preset" "${targets[@]}"

# Open MPI 4 keeps one session folder per user. An mpirun that ends removes the folder if it is empty, and another one
# that starts at that moment fails. Tests start mpirun in parallel, so an entry of our own keeps the folder from being
# empty.
session_folder="${TMPDIR:-/tmp}/ompi.${HOSTNAME%%.*}.$EUID"
mkdir -p "$session_folder"
chmod 700 "$session_folder"
mkdir -p "$session_folder/tests.$$"
trap 'rmdir "$session_folder/tests.$$" && rmdir "$session_folder" 2>/dev/null || true' EXIT

cd "$root"
status=0
ctest --preset "$preset" -L "$labels" --no-tests=error "${ctest_arguments[@]}" </dev/null || status=$?
if [[ $labels == quick ]]; then
  echo "Left out, and run by launch/test.sh --all but for those that take hours: $(left_out)"
else
  echo "Left out, since they take hours; ctest --preset $preset -C nightly -L nightly runs them: $(left_out)"
fi
if ((status == 0)); then
  echo "All tests passed (preset $preset)."
else
  echo "Some tests failed (preset $preset): see above." >&2
fi
exit "$status"
