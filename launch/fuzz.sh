#!/usr/bin/env bash
# Builds the fuzz targets and runs each in turn under libFuzzer, with sanitizers, starting from its corpus, until it has
# been called a million times or for 2 hours. Inputs that reach new code are kept in build/fuzz/found/TARGET, from which
# a later run continues. Prints one line per target. Fails if an input ended a target or made it hang for 30 seconds;
# that input is then in build/fuzz/crashes.
#
#   launch/fuzz.sh [--runs N] [--seconds N] [TARGET...]     # all targets unless some are named
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

runs=1000000
seconds=7200
targets=()
while (($#)); do
  case "$1" in
    --runs) runs="${2:?--runs needs a number}" && shift ;;
    --seconds) seconds="${2:?--seconds needs a number}" && shift ;;
    -*) echo "fuzz: unknown argument '$1'; there are --runs N and --seconds N" >&2 && exit 2 ;;
    *) targets+=("$1") ;;
  esac
  shift
done
if ((${#targets[@]} == 0)); then mapfile -t targets < <(ls "$root/tests/fuzz/corpus"); fi

# Debian 12's default version is too old, but Debian 12 also has version 16.
clang=clang
if command -v clang-16 >/dev/null; then clang="clang-16"; fi
export CC="$clang" CXX="${clang/clang/clang++}"
"$root/launch/build.sh" --with-tests fuzz "${targets[@]/#/fuzz_}" >&2
cd "$root/build/fuzz"
status=0
for target in "${targets[@]}"; do
  mkdir -p "found/$target" crashes
  log="found/$target.log"
  ended="no defect"
  if ! bash -c 'TIMEFORMAT="%U s of processor time"; time "$@"' fuzz "bin/fuzz_$target" -runs="$runs" \
    -max_total_time="$seconds" -timeout=30 -rss_limit_mb=4096 -print_final_stats=1 -artifact_prefix="crashes/$target-" \
    "found/$target" "$root/tests/fuzz/corpus/$target" >"$log" 2>&1 </dev/null; then
    ended="A DEFECT: see build/fuzz/$log"
    status=1
  fi
  executions="$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")"
  echo "$target: ${executions:-?} executions, $(tail -n 1 "$log"), $ended"
done
exit "$status"
