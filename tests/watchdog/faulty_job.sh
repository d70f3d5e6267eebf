#!/usr/bin/env bash
# faulty_job.sh FAULT VICTIM WORK_DIR EVENKEEL LAUNCHER...: runs a job whose rank VICTIM has FAULT after a few steps, and checks
# how the job ends. LAUNCHER starts a program on all ranks. FAULT is
#
#   stop  the rank is stopped for good: the job ends in time with one message that names the rank, and leaves nothing behind
#   cut   the rank's node loses its link: as for stop, and the ranks of that node end as well
#   slow  the rank is stopped again and again, each time for less than the limit, in total for twice the limit: the job
#         continues until the rank is killed from outside
set -euo pipefail
fault=$1 victim=$2 work=$3 evenkeel=$4
launcher=("${@:5}")
here="$(dirname "$(realpath "$0")")"
seconds=4 # the limit
slack=5   # time allowed for the launcher, on a busy machine

fail() {
  echo "$1" >&2
  [[ ! -e "$work/err" ]] || cat "$work/err" >&2
  exit 1
}

rm -rf "$work"
mkdir -p "$work"
before="$(ls -A /dev/shm)"
echo '{}' >"$work/job.yaml"
job=(run "$work/job.yaml" --set source.kind=synthetic --set source.samples=64 --set batch.global_batch=32
     --set micro_batch.max_tokens=32768 --set "watchdog.seconds=$seconds" --set batch.epochs=1000000
     --report "$work/report" --progress off)
status=0
patience=60
if [[ "$fault" == cut ]]; then patience=20; fi # Open MPI's mpirun waits forever for its daemon behind the cut link
timeout --kill-after=5 "$patience" "${launcher[@]}" "$here/rank.sh" "$fault" "$victim" "$work" "$evenkeel" "${job[@]}" \
  >"$work/out" 2>"$work/err" || status=$?
((status != 77)) || { cat "$work/err" >&2; exit 77; }

if [[ "$fault" == slow ]]; then
  [[ -e "$work/was-slow" ]] || fail "the job ended before, with status $status"
  (($(grep -c "^evenkeel: error:" "$work/err") == 0)) || fail "a slow rank was taken for one that is stopped"
  exit
fi
((status != 0)) || fail "the job ended well"
((patience < 60)) || ((status != 124 && status != 137)) || fail "the job did not end"
grep -q "^evenkeel: error: .*$victim.* (hosts\? .*seconds.*of step [0-9]" "$work/err" || fail "no message names rank $victim"
(($(grep -c "^evenkeel: error:" "$work/err") == 1)) || fail "there is more than one message"
grep -q "waits for" "$work/err" || fail "nothing says what ranks wait for"
sleep 0.5 # lets the observers of the ranks write
for ended in "$work"/ended.*; do
  took=$(($(<"$ended") - $(<"$work/suffered")))
  ((took <= seconds + slack)) || fail "a rank ended $took seconds after the fault (${ended##*/})"
done
[[ -z "$(find "$work" -name '*.tmp-*')" ]] || fail "temporary files are left"
for name in $(comm -13 <(echo "$before") <(ls -A /dev/shm)); do
  # A segment that a process maps belongs to another job, which began in the meantime.
  grep -qs "/dev/shm/$name" /proc/[0-9]*/maps || [[ ! -e "/dev/shm/$name" ]] || fail "shared memory is left: $name"
done
