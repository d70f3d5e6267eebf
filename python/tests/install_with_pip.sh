#!/usr/bin/env bash
# install_with_pip.sh PYTHON SOURCE WORK_DIR [BUILD]: copies the sources that git tracks, installs the package from the copy
# into a folder with pip, without build isolation and without a package index, and runs its tests from that folder. With BUILD,
# the package uses the libraries of that build, and only a few tests check that they are found. Without it, pip builds the
# libraries for debugging, which takes half the time and checks C++ contracts while the tests pass invalid arguments. Then
# installs the folder python/ alone, which lacks the sources of the libraries.
set -euo pipefail
python=$1 source=$2 work=$3 build=${4:-}

rm -rf "$work"
mkdir -p "$work/copy"
# A snapshot of the sources without .git has no relevant build folders.
if files="$(git -C "$source" ls-files --cached --others --exclude-standard 2>/dev/null)" && [[ -n "$files" ]]; then
  (cd "$source" && tar --files-from=- -cf - --ignore-failed-read) <<<"$files" | tar -xf - -C "$work/copy"
else
  (cd "$source" && tar --exclude=./build -cf - .) | tar -xf - -C "$work/copy"
fi

install=("$python" -m pip install --no-build-isolation --no-deps --no-index --disable-pip-version-check
         --root-user-action=ignore --quiet)
(cd "$work/copy" && EVENKEEL_BUILD="$build" CMAKE_BUILD_TYPE=Debug "${install[@]}" --target "$work/site" ./python)
cd "$work" # the sources are not in the current folder
PYTHONPATH="$work/site" "$python" - "$work/site" <<'PROGRAM'
import pathlib
import sys

import evenkeel

folder = pathlib.Path(sys.argv[1])
assert folder in pathlib.Path(evenkeel.__file__).parents, evenkeel.__file__
assert (folder / "evenkeel" / "py.typed").exists()
for file in ("libevenkeel.so", "libevenkeel_mpi.so", "_prototypes.py"):
    assert (folder / "evenkeel" / file).is_file(), file + " is missing"
print("evenkeel", evenkeel.__version__, "is installed")
PROGRAM
PYTHONPATH="$work/site" "$work/site/bin/evenkeel-import" --help >/dev/null

# These tests take longest, and call nothing that other tests do not call.
tests=("$work/copy/python/tests" --ignore "$work/copy/python/tests/training")
[[ -z "$build" ]] || tests=("$work/copy/python/tests/test_package.py" "$work/copy/python/tests/service/test_example.py")
PYTHONPATH="$work/site" PYTHONDONTWRITEBYTECODE=1 "$python" -m pytest -q -p no:cacheprovider "${tests[@]}"

if EVENKEEL_BUILD="$work" "${install[@]}" --target "$work/nowhere" "$work/copy/python" >"$work/unbuilt.log" 2>&1; then
  echo "a folder without the libraries was taken for a build" >&2
  exit 1
fi
grep -q "EVENKEEL_BUILD names $work, which has no" "$work/unbuilt.log" || { cat "$work/unbuilt.log" >&2 && exit 1; }

cp -r "$work/copy/python" "$work/alone"
rm -rf "$work/alone/build"
if "${install[@]}" --target "$work/nowhere" "$work/alone" >"$work/alone.log" 2>&1; then
  echo "python/ without the sources that it builds was installed" >&2
  exit 1
fi
grep -q "EVENKEEL_SOURCE" "$work/alone.log" || { cat "$work/alone.log" >&2 && exit 1; }
