#!/usr/bin/env bash
# same_bytes.sh SIMULATE_NODES RANKS_PER_NODE WORK_DIR EVENKEEL MPIRUN...: requires that the main job dumps the same tensors and
# returns the same results over several nodes as on one node with the same number of ranks, although it uses another path.
set -euo pipefail
simulate=$1 ranks=$2 work=$3 evenkeel=$4
mpirun=("${@:5}")
nodes="$(tr ',' '\n' <<<"$ranks" | wc -l)"
total=$((${ranks//,/+}))

rm -rf "$work"
mkdir -p "$work"
# Placement is off: it keeps samples on their nodes, so other ranks would get the same parts.
job=("$evenkeel" run "$(dirname "$simulate")/../configs/quickstart.yaml" --set balance.placement=none --set source.samples=300
     --set micro_batch.max_tokens=16384 --progress off)
"$simulate" "$nodes" "$ranks" -- "${job[@]}" --dump "$work/nodes/dump" --results "$work/nodes/results"
"${mpirun[@]}" -np "$total" "${job[@]}" --dump "$work/one/dump" --results "$work/one/results" \
  --set exchange.path=point-to-point
[[ -n "$(find "$work/one/dump" -name 'mb-*.safetensors')" ]]
diff -r --exclude=evenkeel-run.json "$work/one" "$work/nodes"  # this file contains hosts and times
rm -rf "$work"
