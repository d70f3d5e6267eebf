#!/usr/bin/env bash
# Checks the style of the whole tree. launch/lint.sh --format only runs clang-format, which takes seconds.
# launch/lint.sh [--preset NAME] [FILE...] also runs clang-tidy on all sources or on these, which takes long. Changes no
# files. Versions other than Debian 12's give different results.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$root"

preset=release
only_format=false
files=()
while (($#)); do
  case "$1" in
    --format)
      only_format=true
      shift
      ;;
    --preset)
      preset="${2:?--preset needs a name: release, ci, debug, asan or tsan}"
      shift 2
      ;;
    -*)
      echo "lint: unknown argument '$1'; there are --format and --preset" >&2
      exit 2
      ;;
    *)
      files+=("$1")
      shift
      ;;
  esac
done

tidy=clang-tidy-16 # older versions cannot read the ranges of GCC 12's library
format=clang-format-14
for tool in "$format" "$tidy"; do
  if ! command -v "$tool" >/dev/null; then
    [[ $tool == "$tidy" && $only_format == true ]] && continue
    echo "lint: $tool is missing: launch/install-packages.sh --lint installs it" >&2
    exit 1
  fi
done

git ls-files -z '*.cpp' '*.hpp' | xargs -0 "$format" --dry-run --Werror
echo "clang-format has nothing to say."
if [[ $only_format == true ]]; then exit 0; fi

if [[ ! -f build/$preset/compile_commands.json ]]; then
  echo "lint: build/$preset/compile_commands.json is missing: cmake --preset $preset makes it" >&2
  exit 1
fi
if ((${#files[@]} == 0)); then
  mapfile -t files < <(git ls-files 'src/*.cpp' 'bench/*.cpp' 'examples/*.cpp' | while read -r file; do
    if grep -qF "/$file\"" "build/$preset/compile_commands.json"; then echo "$file"; fi # the optional ones may be left out
  done)
fi
# Options for GCC's options that clang does not know, for headers that it lacks, and for functions that only checked
# contracts call.
arguments=(-Wno-unknown-warning-option "-idirafter$(g++ -print-file-name=include)" -Wno-unneeded-internal-declaration)
printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" "$tidy" --quiet --warnings-as-errors='*' -p "build/$preset" \
  "${arguments[@]/#/--extra-arg=}" 2>/dev/null # stderr only has counts of suppressed warnings
echo "clang-tidy has nothing to say."
