#!/usr/bin/env bash
# Runs every benchmark of docs/benchmarks.md, and writes text (Markdown tables) and JSON of each to a folder.
# Usage: launch/benchmarks.sh [--out DIR] [--lengths FILE.csv] [--python PROGRAM]
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
# shellcheck source=launch/environment.sh
source "$root/launch/environment.sh"

out="$root/build/benchmarks"
lengths=()
python=python3
while (($#)); do
  case $1 in
    --out) out="${2:?--out needs a folder}" ;;
    --lengths) lengths=(--lengths "$(realpath "${2:?--lengths needs a file}")") ;;
    --python) python="${2:?--python needs a program}" ;;
    *)
      echo "benchmarks: unknown argument '$1'; there are --out, --lengths and --python" >&2
      exit 2
      ;;
  esac
  shift 2
done

"$root/launch/install-packages.sh" --tests # Python, for the loops that are measured next to ours
"$root/launch/build.sh" --with-tests release evenkeel-bench
program="$root/build/release/bin/evenkeel-bench"
mkdir -p "$out"

measure() { # NAME COMMAND...: prints and keeps the output of COMMAND
  local name=$1
  shift
  echo "== $name"
  "$@" --json "$out/$name.json" </dev/null >"$out/$name.md"
  cat "$out/$name.md"
}

measure pack "$program" pack --python "$python"
measure pack-warm "$program" pack --warm --python "$python"
measure stream "$program" stream "${lengths[@]}"
measure buffer "$program" buffer --folder "$out"
measure plan "$program" plan --python "$python" "${lengths[@]}"
for ranks in 2 4 8; do
  measure "exchange-$ranks" mpirun -n "$ranks" "$program" exchange
  measure "step-$ranks" mpirun -n "$ranks" "$program" step --samples 4096
done
for ranks in 1 2; do
  # With so few ranks, mpirun would bind each to one core, together with the thread that makes steps ahead.
  measure "prefetch-$ranks" mpirun -n "$ranks" --bind-to none "$program" step --prefetch 1
done
measure prefix-2 mpirun -n 2 "$program" prefix
measure read-2 mpirun -n 2 "$program" read --folder "$out"
