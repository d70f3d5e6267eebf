#!/usr/bin/env bash
# Checks the style of the whole tree: launch/lint.sh [--quick] [--preset NAME] [FILE...]. Changes no files.
#
#   --quick        takes seconds: clang-format, ruff, shellcheck, codespell, and words that were replaced everywhere.
#                  .ci/run and the pre-commit hook run this
#   without it     also runs clang-tidy, on all sources or on these, which takes long
#   --preset NAME  the build whose compile commands clang-tidy uses (default: release)
#
# launch/install-packages.sh --lint installs the tools, except ruff, which pip installs into build/lint from the Python index.
# Versions other than Debian 12's give different results.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$root"

preset=release
quick=false
files=()
while (($#)); do
  case "$1" in
    --quick)
      quick=true
      shift
      ;;
    --preset)
      preset="${2:?--preset needs a name: release, ci, debug, asan or tsan}"
      shift 2
      ;;
    -*)
      echo "lint: unknown argument '$1'; there are --quick and --preset" >&2
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
for tool in "$format" "$tidy" shellcheck codespell; do
  if ! command -v "$tool" >/dev/null; then
    [[ $tool == "$tidy" && $quick == true ]] && continue
    echo "lint: $tool is missing: launch/install-packages.sh --lint installs it" >&2
    exit 1
  fi
done
ruff=build/lint/bin/ruff
ruff_version=0.17.6
if [[ "$("$ruff" --version 2>/dev/null)" != "ruff $ruff_version" ]]; then
  /usr/bin/python3 -m venv build/lint
  build/lint/bin/pip install --quiet "ruff==$ruff_version"
fi

passed=0
failed=0
# check NAME COMMAND...: runs the command, and counts whether it succeeds.
check() {
  if "${@:2}"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "lint: $1 failed" >&2
  fi
}
list_scripts() {
  git ls-files -z | xargs -0 grep -lZE -m 1 '^#!.*[/ ](ba)?sh$'
}
check_scripts() { list_scripts | xargs -0 shellcheck --external-sources --severity=warning; }
check_format() { git ls-files -z '*.cpp' '*.hpp' | xargs -0 "$format" --dry-run --Werror; }
# Quotes of other projects and inputs of tests may have any words.
check_spelling() {
  git ls-files -z -- src include python bench examples launch cmake docs configs '*.md' ':!*.xz' ':!*.png' ':!*.svg' |
    xargs -0 codespell --ignore-words-list=inflight
}

check clang-format check_format
check ruff "$ruff" check --quiet .
check shellcheck check_scripts
check codespell check_spelling
check "the check of words" /usr/bin/python3 tests/modules/check_words.py .
if [[ $quick == true ]]; then
  echo "$passed passed, $failed failed"
  ((failed == 0))
  exit
fi

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
check_with_tidy() {
  printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" "$tidy" --quiet --warnings-as-errors='*' -p "build/$preset" \
    "${arguments[@]/#/--extra-arg=}" 2>/dev/null # stderr only has counts of suppressed warnings
}
check clang-tidy check_with_tidy
echo "$passed passed, $failed failed"
((failed == 0))
