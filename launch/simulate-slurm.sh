#!/usr/bin/env bash
# launch/simulate-slurm.sh NODES CPUS_PER_NODE [--rate RATE] -- COMMAND [ARGUMENT...]
#
# Runs COMMAND on the first node of a Slurm cluster that exists on this machine while COMMAND runs: slurmctld, and a
# slurmd on each simulated node (launch/simulate-nodes.sh). Batch scripts can be tried without a real cluster:
#
#   launch/simulate-slurm.sh 2 4 -- sbatch --wait launch/slurm/srun.sbatch configs/quickstart.yaml
#
# CPUS_PER_NODE is one number, or one per node; a node may have more CPUs than this machine. Files are the machine's
# own, except in /run and /dev/shm.
#
# Exit status: COMMAND's; 2 if the arguments are wrong; 77 if this machine cannot run the cluster, with the reason, so
# that tests count as skipped: without root, without Debian's slurmctld, slurmd, slurm-client and munge, or without
# namespaces.
#
# All processes, including the daemons, are in namespaces of one call and end with it, however it ends.
set -euo pipefail

script="$(realpath "${BASH_SOURCE[0]}")"

skip() {
  echo "simulate-slurm: skipped: $1" >&2
  exit 77
}

# Folder with all files of the cluster, which only processes of this call see.
cluster=/run/evenkeel/slurm

write_configuration() {
  local counts i
  cat <<CONFIGURATION
ClusterName=simulated
SlurmctldHost=n1
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
# A job that is requeued waits until its old credential has ended.
AuthInfo=socket=$cluster/munge.socket,cred_expire=5
StateSaveLocation=$cluster/state
SlurmdSpoolDir=$cluster/spool-%n
TmpFS=$cluster/tmp-%n
SlurmctldPidFile=$cluster/slurmctld.pid
SlurmdPidFile=$cluster/slurmd-%n.pid
SlurmctldLogFile=$cluster/slurmctld.log
SlurmdLogFile=$cluster/slurmd-%n.log
# No control groups: a container may have none.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
JobAcctGatherType=jobacct_gather/none
# Nodes have as many CPUs as is said here, whatever the machine has.
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=10000,bf_interval=1
MpiDefault=none
ReturnToService=2
# Slurm kills what has not ended this many seconds after TERM, the default: a loaded machine needs more than a few.
KillWait=30
CONFIGURATION
  IFS=, read -r -a counts <<<"$EVENKEEL_NODES"
  for ((i = 1; i <= ${#counts[@]}; ++i)); do
    echo "NodeName=n$i CPUs=${counts[i - 1]} State=UNKNOWN"
  done
  echo "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP"
}

# Fails with the last output of the daemons.
no_cluster() {
  echo "simulate-slurm: $1" >&2
  tail -n 5 "$cluster"/*.log >&2
  exit 1
}

run_inside() {
  local commas="${EVENKEEL_NODES//[^,]/}" nodes i
  nodes=$((${#commas} + 1))
  mkdir -p "$cluster/state"
  export SLURM_CONF="$cluster/slurm.conf"
  write_configuration >"$SLURM_CONF"
  head -c 128 /dev/urandom >"$cluster/munge.key"
  chmod 600 "$cluster/munge.key"
  munged --key-file="$cluster/munge.key" --socket="$cluster/munge.socket" --pid-file="$cluster/munged.pid" \
    --seed-file="$cluster/munged.seed" --log-file="$cluster/munged.log" || no_cluster "munged does not start"
  # Starts daemons in the foreground, to keep what they print before they have a log.
  slurmctld -D </dev/null >>"$cluster/starting.log" 2>&1 &
  for ((i = 1; i <= nodes; ++i)); do
    mkdir -p "$cluster/spool-n$i" "$cluster/tmp-n$i"
    "$EVENKEEL_ON_NODE" "n$i" slurmd -D </dev/null >>"$cluster/starting.log" 2>&1 &
  done
  for ((i = 0; i < 300; ++i)); do
    if (($(sinfo --noheader --Node --states=idle 2>/dev/null | wc -l) == nodes)); then break; fi
    sleep 0.1
  done
  ((i < 300)) || no_cluster "the cluster is not up after 30 seconds: $(sinfo --noheader --Node --long 2>&1)"

  # Slurm starts jobs, not the simulation. Ranks are not bound, since nodes share cores, and may not have as many as
  # they claim.
  unset OMPI_MCA_plm_rsh_agent PRTE_MCA_plm_ssh_agent
  export OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_rmaps_base_mapping_policy=slot SLURM_CPU_BIND=none
  export PRTE_MCA_hwloc_default_binding_policy=none PRTE_MCA_rmaps_default_mapping_policy=slot:oversubscribe # Open MPI 5
  "$@"
}

if [[ "${1:-}" == --inside ]]; then
  run_inside "${@:2}"
  exit
fi

# Outside the nodes. Arguments before the command are for simulate-nodes.sh, which also checks them.
nodes=()
while (($#)) && [[ "$1" != -- ]]; do
  nodes+=("$1")
  shift
done
if (($# < 2)); then
  echo "simulate-slurm: -- COMMAND is missing" >&2
  echo "Usage: launch/simulate-slurm.sh NODES CPUS_PER_NODE [--rate RATE] -- COMMAND [ARGUMENT...]" >&2
  exit 2
fi
shift
PATH+=:/usr/sbin:/sbin
for tool in munged slurmctld slurmd sbatch; do
  command -v "$tool" >/dev/null || skip "$tool is not installed; launch/install-packages.sh --tests installs it"
done
((EUID == 0)) || skip "Slurm's daemons start jobs as root only"
exec "$(dirname "$script")/simulate-nodes.sh" "${nodes[@]}" --once -- "$script" --inside "$@"
