#!/usr/bin/env bash
# other_unix.sh CXX EVENKEEL_SOURCE MPI_FLAG...: compiles the sources that use Linux-only features with these features disabled.
set -euo pipefail
cxx=$1 source=$2

cd "$source"
mapfile -t files < <(grep -lE 'memfd_create|F_OFD_|POSIX_FADV|CPU_COUNT|__linux__' -r src --include='*.cpp')
((${#files[@]} >= 5))
for file in "${files[@]}"; do
  echo "$file"
  "$cxx" -std=c++20 -fsyntax-only -Wall -Wextra -Werror -Isrc -Iinclude -include tests/package/other_unix.hpp \
    "${@:3}" "$file"
done
