#!/usr/bin/env bash
# job.sh FOLDER NAME CHECK... PROGRAM OPTIONS...: runs a job of two steps under CHECK. The job reads rollouts and writes every
# kind of output.
set -euo pipefail

work="$1/$2"
shift 2
rm -rf "$work"
mkdir -p "$work"
{
  for ((sample = 0; sample < 24; ++sample)); do
    tokens="$(seq -s, 1 $((20 + 7 * (sample * 5 % 24))))"
    echo "{\"uid\": \"q$((sample / 4))\", \"prompt_ids\": [5,6,7], \"response_ids\": [$tokens], \"reward\": 0.5}"
  done
} >"$work/rollouts.jsonl"
cat >"$work/job.yaml" <<END
source: {kind: jsonl, path: $work/rollouts.jsonl}
batch: {global_batch: 12, shuffle: true}
micro_batch: {max_tokens: 600}
END
# The program's arguments follow its name.
arguments=()
for argument in "$@"; do
  arguments+=("$argument")
  if [[ "$argument" == */evenkeel ]]; then arguments+=(run "$work/job.yaml"); fi
done
exec "${arguments[@]}" --dump "$work/dump" --results "$work/results" --report "$work/report" --state "$work/state" \
  --progress off --log-level off
