#!/usr/bin/env bash
# slurm.sh CASE WORK_DIR EVENKEEL MPIRUN...: runs the batch scripts of launch/slurm on a Slurm cluster that
# launch/simulate-slurm.sh starts: slurmctld, and a slurmd on each of two simulated nodes. Each case is a function below. Exits
# with 77 and the reason if a cluster cannot be started.
set -euo pipefail
script="$(realpath "${BASH_SOURCE[0]}")"
root="$(realpath "$(dirname "$script")/../..")"
launchers=(srun mpirun)

# fail WHAT [LOG]: ends the case. Prints the end of the log, what Slurm did on each node, and which of its processes run.
fail() {
  echo "slurm.sh: $1" >&2
  [[ -z "${2:-}" ]] || tail -n 40 "$2" >&2
  tail -n 5 /run/evenkeel/slurm/slurmd-n*.log >&2 || true
  pgrep -a 'slurmstepd|srun|evenkeel' >&2 || true
  exit 1
}

# eventually CONDITION...: waits until the command succeeds.
eventually() {
  for ((i = 0; i < 1200; ++i)); do
    if "$@"; then return; fi
    sleep 0.05
  done
  fail "after a minute: not $*"
}

# submit LAUNCHER ARGUMENT...: prints the job's number. The array `options` has options of sbatch.
options=()
submit() { sbatch --parsable --job-name="$1" "${options[@]}" "$root/launch/slurm/$1.sbatch" "${@:2}"; }
state_of() { scontrol --oneliner show job "$1" | grep -oP ' JobState=\K\w+'; }
has_ended() { [[ "$(state_of "$1")" =~ ^(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL)$ ]]; }
status_of() { scontrol --oneliner show job "$1" | grep -oP ' ExitCode=\K\d+'; }
log_says() { grep -qs -- "$2" "$1"; }
# ends LAUNCHER JOB STATE STATUS: waits until the job ends, and requires this state and status.
ends() {
  eventually has_ended "$2"
  local state status
  state="$(state_of "$2")" status="$(status_of "$2")"
  [[ "$state $status" == "$3 $4" ]] || fail "$1: the job ends as $state with status $status, not $3 with $4" "$1-$2.log"
}

a_job_delivers_what_mpirun_delivers() {
  # Placement is off: it keeps samples on their nodes, so other ranks would get the same parts.
  local job=("$root/configs/quickstart.yaml" --set balance.placement=none --set source.samples=300 --set
             micro_batch.max_tokens=16384 --progress off) how
  "${mpirun[@]}" -np 8 "$evenkeel" run "${job[@]}" --dump alone/dump --results alone/results --log-level off
  [[ -n "$(find alone/dump -name 'mb-*.safetensors')" ]]
  for how in "${launchers[@]}"; do
    ends "$how" "$(EVENKEEL_NETWORK=tcp submit "$how" "${job[@]}" --dump "$how/dump" --results "$how/results")" COMPLETED 0
    diff -r --exclude=evenkeel-run.json alone "$how" # this file contains hosts and times
    log_says "$how"-*.log "bytes between nodes" || fail "$how: the ranks are on one node" "$how"-*.log
  done
}

# fails LAUNCHER JOB STATUS REASON: requires that the job fails with this status and logs the reason.
fails() {
  ends "$1" "$2" FAILED "$3"
  log_says "$1-$2.log" "$4" || fail "$1: it does not say: $4" "$1-$2.log"
}
a_job_that_fails_says_why_and_ends_with_its_status() {
  local how
  local -A wrong missing empty network
  echo 'mesh: {tensor: 2}' >wrong.yaml
  options=(--ntasks-per-node=1) # lets jobs run at the same time
  for how in "${launchers[@]}"; do
    wrong[$how]="$(submit "$how" wrong.yaml)"
    missing[$how]="$(submit "$how" nowhere.yaml)"
    empty[$how]="$(submit "$how")"
    network[$how]="$(EVENKEEL_NETWORK=fast submit "$how" wrong.yaml)"
  done
  for how in "${launchers[@]}"; do
    fails "$how" "${wrong[$how]}" 2 "evenkeel: error: wrong.yaml:.*tensor"
    fails "$how" "${missing[$how]}" 2 "evenkeel: error: nowhere.yaml: cannot open"
    fails "$how" "${empty[$how]}" 2 "error: $how.sbatch: a configuration is missing"
    fails "$how" "${network[$how]}" 2 "EVENKEEL_NETWORK is 'fast'; it must be"
  done
}

# All that jobs have on the nodes besides their output: shared memory, session folders, temporary files, processes.
# Leaves out session folders of Open MPI's daemons on other nodes: Slurm signals mpirun and its daemons at the same time,
# and a daemon that loses its connection to mpirun first may exit without removing its folder.
traces() {
  (cd / && find /dev/shm /run/evenkeel/sessions /run/evenkeel/slurm/tmp-* "$temporary" -mindepth 1 \
    -not -path '/run/evenkeel/sessions/ompi.n[2-9]*')
  local program
  for program in evenkeel orted mpirun srun; do pgrep -ax "$program" || true; done
}
has_no_traces() { [[ -z "$(traces)" ]]; }
leaves_no_traces() {
  for ((i = 0; i < 1200; ++i)); do
    if has_no_traces; then return; fi
    sleep 0.05
  done
  traces >traces
  fail "$1: a minute after the end it has left" traces
}

a_cancelled_job_leaves_nothing_behind() {
  local how job round
  for how in "${launchers[@]}"; do
    for round in 1 2; do
      job="$(submit "$how" "$root/configs/quickstart.yaml" --set source.samples=1000000 --progress lines)"
      eventually log_says "$how-$job.log" "1,000,000 samples"
      ((round == 1)) || sleep 1 # also kills in the middle of steps
      [[ -n "$(find /dev/shm -mindepth 1)" ]] || fail "there is nothing to be left behind"
      scancel "$job"
      eventually has_ended "$job"
      [[ "$(state_of "$job")" == CANCELLED ]] || fail "$how: the job is $(state_of "$job")" "$how-$job.log"
      leaves_no_traces "$how, round $round"
    done
  done
}

# Prints the number of finished steps in a job's state.
has_done() { (($(grep -ohP '"next_step": *\K\d+' "$1"/evenkeel-state.json 2>/dev/null || echo 0) >= $2)); }

a_job_whose_time_is_over_goes_on_later_without_losing_a_step() {
  local how
  local -A jobs
  { echo length && seq 10 393 | sed 's/.*\(..\)$/1\1/'; } >lengths.csv
  cat >job.yaml <<'JOB'
source: {kind: lengths, path: lengths.csv}
batch: {global_batch: 8, shuffle: true}
balance: {placement: none}
JOB
  options=(--ntasks-per-node=2) # lets both jobs run at the same time
  "${mpirun[@]}" -np 4 "$evenkeel" run job.yaml --dump alone --progress off --log-level off
  for how in "${launchers[@]}"; do
    jobs[$how]="$(submit "$how" job.yaml --state "$how-state" --dump "$how" --resume --progress off)"
  done
  for how in "${launchers[@]}"; do
    eventually has_done "$how-state" 2
    scancel --batch --signal=USR1 "${jobs[$how]}" # as Slurm does before the time limit
  done
  # Meanwhile, a job that could only start over is not signaled.
  jobs[once]="$(submit srun job.yaml --dump once --progress off)"
  eventually test -e once/step-000000
  scancel --batch --signal=USR1 "${jobs[once]}"
  ends srun "${jobs[once]}" COMPLETED 0
  diff -r --exclude=evenkeel-run.json alone once
  for how in "${launchers[@]}"; do
    ends "$how" "${jobs[$how]}" COMPLETED 0
    log_says "$how-${jobs[$how]}.log" "resumes with step" || fail "$how: it began again" "$how-${jobs[$how]}.log"
    diff -r --exclude=evenkeel-run.json alone "$how"
  done
}

ranks_keep_to_the_cores_of_their_tasks() {
  local how job smt=/sys/devices/system/cpu/smt/active
  if [[ ! "$(taskset -cp $$)" =~ :\ 0[-,]1 || "$(cat $smt 2>/dev/null || echo 0)" != 0 ]]; then
    echo "slurm.sh: skipped: CPUs 0 and 1 are not two cores that this test may use" >&2
    exit 77
  fi
  mkdir bin
  printf '#!/bin/sh\ngrep Cpus_allowed_list /proc/self/status\n' >bin/evenkeel
  chmod +x bin/evenkeel
  unset OMPI_MCA_hwloc_base_binding_policy OMPI_MCA_rmaps_base_mapping_policy SLURM_CPU_BIND
  unset PRTE_MCA_hwloc_default_binding_policy PRTE_MCA_rmaps_default_mapping_policy
  for how in "${launchers[@]}"; do
    options=(--ntasks-per-node=2 --cpus-per-task=1)
    job="$(PATH="$PWD/bin:$PATH" submit "$how" any.yaml)"
    ends "$how" "$job" COMPLETED 0
    [[ "$(sort "$how-$job.log" | cut -f2 | tr '\n' ' ')" == "0 0 1 1 " ]] || fail "$how: two ranks a node" "$how-$job.log"
    options=(--ntasks-per-node=1 --cpus-per-task=2)
    job="$(PATH="$PWD/bin:$PATH" submit "$how" any.yaml)"
    ends "$how" "$job" COMPLETED 0
    [[ "$(cut -f2 "$how-$job.log" | tr '\n' ' ')" == "0-1 0-1 " ]] || fail "$how: one rank a node" "$how-$job.log"
  done
}

# Runs outside of the cluster: requires that no daemon remains after a cluster was killed at any moment.
a_cluster_leaves_nothing_behind_however_it_ends() {
  local signal status=0
  seconds="86400.$$" # distinguishes our tasks from all other processes
  "$root/launch/simulate-slurm.sh" 1 1 -- sh -c 'exit 7' || status=$?
  ((status != 77)) || exit 77
  ((status == 7)) || fail "a command that ends with 7 gives $status"
  for signal in TERM KILL; do
    "$root/launch/simulate-slurm.sh" 2 1 -- srun --nodes=2 sleep "$seconds" &
    call=$!
    trap 'kill "$call"' EXIT
    eventually tasks_are 2
    space="$(readlink "/proc/$(tasks | head -n 1)/ns/pid")"
    (($(residents | wc -l) > 5)) || fail "the daemons are elsewhere"
    kill "-$signal" "$call"
    wait "$call" || true
    eventually is_empty
    trap - EXIT
  done
}
tasks() { pgrep -fx "[^ ]*sleep $seconds"; }
tasks_are() { (($(tasks | wc -l) == $1)); }
# Lists the processes in the cluster's PID namespace.
residents() { find /proc/[0-9]*/ns/pid -maxdepth 0 -printf '%l %p\n' 2>/dev/null | grep -F "$space" || true; }
is_empty() { [[ -z "$(residents)" ]]; }

if [[ "$1" == --inside ]]; then
  case=$2 work=$3 evenkeel=$4
  mpirun=("${@:5}")
  temporary="$work/tmp"
  mkdir "$temporary"
  PATH="$(dirname "$evenkeel"):$PATH"
  export PATH TMPDIR="$temporary"
  cd "$work"
  "$case"
  exit
fi

case=$1 work=$2
rm -rf "$work"
mkdir -p "$work"
if [[ "$case" == a_cluster_leaves* ]]; then
  cd "$work"
  "$case"
  exit
fi
cpus=4
if [[ "$case" == ranks_keep_to* ]]; then cpus=2; fi
status=0
"$root/launch/simulate-slurm.sh" 2 "$cpus" -- "$script" --inside "$case" "$(realpath "$work")" "${@:3}" || status=$?
((status != 0)) || rm -rf "$work"
exit "$status"
