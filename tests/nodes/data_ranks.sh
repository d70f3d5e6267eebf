#!/usr/bin/env bash
# data_ranks.sh SIMULATE_NODES RANKS_PER_NODE DATA_RANKS WORK_DIR EVENKEEL MPIRUN...: a job whose first ranks read for
# the others, which may be on other nodes, dumps the same tensors and brings home the same results as its trainers alone
# on one node, whether one program sets the data ranks aside or they have their own.
set -euo pipefail
simulate=$1 ranks=$2 data=$3 work=$4 evenkeel=$5
mpirun=("${@:6}")
nodes="$(tr ',' '\n' <<<"$ranks" | wc -l)"
trainers=$((${ranks//,/+} - data))

rm -rf "$work"
mkdir -p "$work"
# Placement keeps samples on their nodes, so that it gives other ranks the same parts: it stays off here.
config="$(dirname "$simulate")/../configs/quickstart.yaml"
job=("$config" --set mesh.tp=1 --set balance.placement=none --set source.samples=300 --set batch.global_batch=64
     --set micro_batch.max_tokens=16384)
output() { echo --progress off --dump "$work/$1/dump" --results "$work/$1/results"; }

# shellcheck disable=SC2046 # words of options
"${mpirun[@]}" -np "$trainers" "$evenkeel" run "${job[@]}" $(output alone) --set exchange.path=point-to-point
[[ -n "$(find "$work/alone/dump" -name 'mb-*.safetensors')" ]]
job+=(--set "mesh.data_ranks=$data")
# shellcheck disable=SC2046
"$simulate" "$nodes" "$ranks" -- "$evenkeel" run "${job[@]}" $(output set-aside)
# Two programs, as `mpirun -n 2 evenkeel serve JOB : -n 3 evenkeel run JOB` would start them.
choose="if ((OMPI_COMM_WORLD_RANK < $data)); then exec '$evenkeel' serve ${job[*]}; fi
exec '$evenkeel' run ${job[*]} $(output two-programs)"
"$simulate" "$nodes" "$ranks" -- bash -c "$choose"
for way in set-aside two-programs; do
  diff -r --exclude=evenkeel-run.json "$work/alone" "$work/$way" # which tells of hosts and times
done
rm -rf "$work"
