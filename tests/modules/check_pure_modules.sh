#!/usr/bin/env bash
# check_pure_modules.sh SOURCE_DIR PROGRAM MODULE...: fails if one of these pure modules includes MPI, if a file outside the
# program, examples and tests names MPI_COMM_WORLD, or if PROGRAM, which links all of these modules, loads an MPI library.
set -euo pipefail
source_dir=$1
program=$2
modules=("${@:3}")

cd "$source_dir"
failed=0
# Not every module has public headers, and grep would fail because of a missing folder.
folders=()
for folder in "${modules[@]/#/include/evenkeel/}" "${modules[@]/#/src/}"; do
  [[ -d $folder ]] && folders+=("$folder")
done
if grep -rnE '#include *[<"](mpi\.h|boost/mpi|evenkeel/(mesh|transport|exchange|service|source|report|job)/)' \
    "${folders[@]}"; then
  echo "a pure module includes MPI or a module above it" >&2
  failed=1
fi
if grep -rn 'MPI_COMM_WORLD' include src --include='*.hpp' --include='*.cpp' | grep -v '^src/cli/'; then
  echo "MPI_COMM_WORLD belongs in the program, examples and tests only" >&2
  failed=1
fi
if ldd "$program" | grep -iE 'libmpi|libopen-(rte|pal)'; then
  echo "a program of pure modules loads MPI" >&2
  failed=1
fi
"$program" >/dev/null
exit $failed
