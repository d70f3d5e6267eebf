#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test. `--preset NAME` tests another preset than release; all
# other arguments go to ctest: launch/test.sh --preset asan -L serial
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# shellcheck source=launch/environment.sh
source "$root/launch/environment.sh"

preset=release
ctest_arguments=()
while (($#)); do
  case "$1" in
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

"$root/launch/install-packages.sh" --tests
"$root/launch/build.sh" --with-tests "$preset"

cd "$root"
status=0
ctest --preset "$preset" --no-tests=error "${ctest_arguments[@]}" </dev/null || status=$?
if ((status == 0)); then
  echo "All tests passed (preset $preset)."
else
  echo "Some tests failed (preset $preset): see above." >&2
fi
exit "$status"
