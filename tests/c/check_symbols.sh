#!/usr/bin/env bash
# check_symbols.sh LIBRARY HEADER VERSION: fails unless what comes out of the library is exactly the functions that the
# header declares, all under this version, and its name is that of the first number.
set -euo pipefail
library=$1 header=$2 version=$3

declared=$(grep -oE '\bevenkeel_[a-z0-9_]+\(' <(grep -A1 -E '^EVENKEEL_API' "$header") | tr -d '(' | sort -u)
exported=$(nm -D --defined-only --with-symbol-versions "$library" | awk '{print $3}' | grep -v "^EVENKEEL_$version\$" | sort)
expected=$(sed "s/\$/@@EVENKEEL_$version/" <<<"$declared" | sort)
if [[ $exported != "$expected" ]]; then
  echo "declared in the header (<) and coming out of the library (>):"
  diff <(echo "$expected") <(echo "$exported") || true
  exit 1
fi
readelf -d "$library" | grep -q "SONAME.*\[libevenkeel.so.${version%%.*}\]"
echo "$(wc -l <<<"$exported") functions, all under EVENKEEL_$version"
