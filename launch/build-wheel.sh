#!/usr/bin/env bash
# launch/build-wheel.sh [PYTHON...]: installs what is missing, and builds a wheel of the Python package for each version of
# Python that is named (3.11 and 3.13), with the libraries that it needs inside. They are left in build/wheel/wheels. A wheel
# is for the glibc of the Debian that builds it and later ones: Debian 12's is 2.36.
#
# The service is in it twice, with MPI and without; which one is used, the package decides when it is imported.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
build="$root/build/wheel"
python=/usr/bin/python3
"$root/launch/install-packages.sh" --wheels
own="$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
wanted=("$@")
if (($# == 0)); then wanted=(3.11 3.13); fi

# The releases of Debian that have other versions of Python.
declare -A releases=([3.11]=bookworm [3.13]=trixie)
for version in "${wanted[@]}"; do
  if [[ $version != "$own" && -z "${releases[$version]:-}" ]]; then
    echo "build-wheel: no Debian that is known here has Python $version; there are ${!releases[*]} and $own" >&2
    exit 2
  fi
done

# Of another Python, an extension module needs no more than headers, and of pybind11. fetch_headers FOLDER RELEASE PACKAGE...
fetch_headers() {
  local folder="$1" release="$2" package
  rm -rf "$folder"
  mkdir -p "$folder"/apt/{lists,cache}/partial "$folder/packages"
  # shellcheck disable=SC2016 # apt's words
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' | sort -u |
    sed "s|.*|deb & $release main|" >"$folder/apt/sources.list"
  local apt=(apt-get -qq -o APT::Sandbox::User=root -o Acquire::Retries=3 -o 'Acquire::Check-Valid-Until=false'
    -o "Dir::Etc::SourceList=$folder/apt/sources.list" -o Dir::Etc::SourceParts=-
    -o "Dir::State::Lists=$folder/apt/lists" -o "Dir::Cache=$folder/apt/cache")
  "${apt[@]}" update
  (cd "$folder/packages" && "${apt[@]}" download "${@:3}")
  for package in "$folder"/packages/*.deb; do dpkg-deb --extract "$package" "$folder"; done
}

# One tree for all, so that what is no binding is compiled once.
build_modules() {
  local version="$1" pybind11="$build/headers-pybind11" python_headers="$build/headers-$1" headers suffix=""
  # A wheel meets NumPy 2 wherever it is installed, which Debian 12's pybind11 misreads.
  [[ -d "$pybind11/usr" ]] || fetch_headers "$pybind11" trixie pybind11-dev
  headers="$pybind11/usr/include"
  if [[ $version != "$own" ]]; then
    [[ -d "$python_headers/usr" ]] || fetch_headers "$python_headers" "${releases[$version]}" "libpython$version-dev"
    headers="$python_headers/usr/include/python$version;$python_headers/usr/include;$headers"
    suffix=".cpython-${version/./}-$(dpkg-architecture -q DEB_HOST_MULTIARCH).so"
  fi
  echo "Building the modules for Python $version"
  cmake -S "$root" --preset wheel -DPython3_EXECUTABLE="$python" -DEVENKEEL_PYTHON_HEADERS="$headers" \
    -DEVENKEEL_PYTHON_SUFFIX="$suffix" </dev/null >/dev/null
  cmake --build "$build" --target evenkeel_python_{core,service} evenkeel_absent_mpi </dev/null
}

# The Python files are the same for all: a wheel of this Debian's Python is the base of the others.
rm -rf "$build"/{python,base,wheels}
build_modules "$own"
mkdir "$build/base"
cp -r "$root/python" "$build/base/source"
rm -rf "$build/base/source/build"
EVENKEEL_SOURCE="$root" EVENKEEL_BUILD="$build" "$python" -m pip wheel --quiet --no-build-isolation --no-deps --no-index \
  --disable-pip-version-check --wheel-dir "$build/base" "$build/base/source"

for version in "${wanted[@]}"; do
  if [[ $version != "$own" ]]; then
    rm -rf "$build/python"
    build_modules "$version"
  fi
  "$python" "$root/python/wheel/assemble.py" "$build"/base/*.whl "$build/python/evenkeel" \
    "$build/python/libevenkeel_absent_mpi.so" "cp${version/./}" "$build/wheels"
done
ls -l "$build/wheels"
