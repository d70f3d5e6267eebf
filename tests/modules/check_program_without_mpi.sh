#!/usr/bin/env bash
# check_program_without_mpi.sh PROGRAM WORK_DIR: fails if PROGRAM, an evenkeel built without MPI, loads an MPI library, cannot
# plan or show a configuration, or does not refuse commands that need MPI with the reason.
set -euo pipefail
program=$1
work=$2

fail() {
  echo "$1" >&2
  exit 1
}
says() { # says TEXT COMMAND...: requires that COMMAND succeeds and prints TEXT
  local printed
  printed=$("${@:2}") || fail "failed: ${*:2}"
  [[ "$printed" == *"$1"* ]] || fail "'${*:2}' does not print '$1' but: $printed"
}

! ldd "$program" | grep -iE 'libmpi|libboost_mpi|libopen-(rte|pal)' || fail "the program loads MPI"

rm -rf "$work"
mkdir -p "$work"
cd "$work"
says '64 samples in groups' "$program" synth --samples 64 --out rollouts.jsonl
says 'on 4 DP ranks' "$program" plan --lengths rollouts.jsonl --set mesh.dp=4 --set micro_batch.max_tokens=65536
says 'shared prefixes' "$program" plan --lengths rollouts.jsonl --set prefix.share=tree --set micro_batch.max_tokens=65536
says 'hierarchical, work' "$program" plan --lengths rollouts.jsonl --set mesh.dp=2 --set micro_batch.max_tokens=65536 --compare
says 'on 4 DP ranks' "$program" plan --lengths rollouts.jsonl --set mesh.dp=4 --set micro_batch.max_tokens=65536 --html plan.html
grep -q '"kind":"plan"' plan.html || fail "plan --html writes no page"
echo 'mesh: {tp: 2}' >job.yaml
says 'max_tokens: 8192' "$program" config show job.yaml --set micro_batch.max_tokens=8192
says 'micro_batch.max_tokens' "$program" config schema micro_batch
says 'Stopped: 0 samples received' timeout --preserve-status 2 "$program" buffer --listen 127.0.0.1:0 --dir store --capacity 16MiB

[[ "$("$program" --help)" != *mpirun* ]] || fail "--help shows commands that this program has not"

for arguments in 'run job.yaml --log-level debug' 'inspect rollouts.jsonl'; do
  status=0
  # shellcheck disable=SC2086
  output=$("$program" $arguments 2>&1) || status=$?
  [[ $status == 2 ]] || fail "'$arguments' ends with $status"
  [[ "$output" == "evenkeel: error: ${arguments%% *} needs MPI, and this program was built without it"* ]] ||
    fail "'$arguments' says: $output"
done
