#!/usr/bin/env bash
# check_symbols.sh LIBRARY HEADER VERSION: fails unless the library exports exactly the functions that the header and the
# headers it includes declare, all under this version, except functions that evenkeel.h declares if HEADER is another header.
# Also requires that the library's name contains the first number of the version.
set -euo pipefail
library=$1 header=$2 version=$3
folder="$(dirname "$header")"

# Prints the headers of this folder that a header includes, and the header itself.
headers_of() {
  local file=$1 included
  echo "$file"
  for included in $(sed -nE 's|^#include "evenkeel/c/(.*)"$|\1|p' "$folder/$file"); do headers_of "$included"; done | sort -u
}
declared_in() {
  (cd "$folder" && grep -h -A1 -E '^EVENKEEL_API' "$@") | grep -oE '\bevenkeel_[a-z0-9_]+\(' | tr -d '(' | sort -u
}
mapfile -t headers < <(headers_of "$(basename "$header")" | sort -u)
declared="$(declared_in "${headers[@]}")"
if [[ $(basename "$header") != evenkeel.h ]]; then
  mapfile -t below < <(headers_of evenkeel.h | sort -u)
  declared="$(comm -23 <(echo "$declared") <(declared_in "${below[@]}"))"
fi
exported=$(nm -D --defined-only --with-symbol-versions "$library" | awk '{print $3}' | grep -v "^EVENKEEL_$version\$" | sort)
expected=$(sed "s/\$/@@EVENKEEL_$version/" <<<"$declared" | sort)
if [[ $exported != "$expected" ]]; then
  echo "declared in the headers (<) and exported by the library (>):"
  diff <(echo "$expected") <(echo "$exported") || true
  exit 1
fi
name="$(basename "$library")"
readelf -d "$library" | grep -qF "[${name%%.so*}.so.${version%%.*}]"
echo "$(wc -l <<<"$exported") functions, all under EVENKEEL_$version"
