#!/usr/bin/env python3
"""fault_matrix.py PROGRAM LIBRARY [OPTIONS]: injects one fault into each of many small jobs, and checks how the job ends: in
time, with one message that says what happened, with the right status, and with nothing left behind. Prints a table; fails if a
job does not end as it should.

PROGRAM is evenkeel, LIBRARY is built from tests/faults/faulty_mpi.cpp. Faults at MPI calls are injected where an undisturbed
run makes calls: at each call in each phase of a step, on the first, a middle and the last rank, on each path of the exchange.
"""

import argparse
import collections
import dataclasses
import enum
import hashlib
import json
import os
import pathlib
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile

from jobs import LIMIT, End, Fault, Job, Runner

PATHS = [
    Job("shared memory, prefetched", ("exchange.path=shared-memory", "exchange.prefetch=1")),
    Job("messages, not prefetched", ("exchange.path=point-to-point", "exchange.prefetch=0")),
    Job("one collective call, cp 2", ("exchange.path=alltoallv", "exchange.prefetch=2", "mesh.cp=2")),
    Job("tensors in common, two passes", ("mesh.tp=2", "exchange.tp_copies=shared", "exchange.prefetch=0",
                                          "profiles={log_prob: {}, update: {micro_batch: {max_tokens: 400}}}"),
        ("--profiles", "log_prob,update")),
]
ON_NODES = Job("two nodes", ("exchange.prefetch=1",), nodes="2,2")
ON_SLOW_NODES = Job("two nodes, slow link", ("exchange.prefetch=1",), nodes="2,2", rate="4mbit")
# All ranks have the same error, and one of them reports it.
SHARED_ERROR = Job("an error of all", ("source.path=/does/not/exist",))
ERRORS = "an error of MPI"
ERRORS_TO_OTHERS = 10
# Calls that free an object after its last use: an error there loses nothing, so it may be ignored.
FREEING_CALLS = {"MPI_Comm_free", "MPI_Group_free", "MPI_Op_free", "MPI_Type_free"}
# When a service ends, it asks whether another side is still there to be notified.
FINAL_QUERY = ("MPI_Comm_test_inter", "its own code")
# Phases in which the watchdogs of the ranks start.
BEGINNINGS = {"ranks meet", "watchdogs meet", "read the configuration"}
WAITING_CALLS = {"MPI_Allgather", "MPI_Allgatherv", "MPI_Allreduce", "MPI_Alltoallw", "MPI_Barrier", "MPI_Bcast",
         "MPI_Comm_create_group", "MPI_Comm_dup", "MPI_Comm_split", "MPI_Comm_split_type", "MPI_Finalize", "MPI_Gather",
         "MPI_Iallreduce", "MPI_Recv", "MPI_Reduce", "MPI_Test", "MPI_Testall", "MPI_Wait",
         "MPI_Waitall", "MPI_Waitany"}


class Expected(enum.Enum):
    """The way in which a job should end."""

    SAME = enum.auto()  # successfully, with the output of the undisturbed job
    REPORTED = enum.auto()  # The rank that has the error reports it.
    STUCK = enum.auto()  # The watchdog reports the rank.
    GONE = enum.auto()  # The launcher reports the rank.
    REFUSED = enum.auto()  # All ranks have an error, and one rank reports it; or the fault does not matter.
    ENDED = enum.auto()  # The user ends the job, and needs no message.


@dataclasses.dataclass(frozen=True)
class Cell:
    row: str
    job: Job
    fault: Fault
    expected: Expected
    name: str = ""  # unique, and independent of the seed


@dataclasses.dataclass
class Verdict:
    """The result of a cell."""

    cell: str
    row: str
    suffered: bool
    hung: bool
    seconds: float
    kept: dict[str, bool]


def is_same(end: End) -> bool:
    return end.status == 0 and end.complete and not end.wrong and not end.errors and not end.notices


def has_one_message(cell: Cell, end: End) -> bool:
    reported, noticed = len(end.errors), len(end.notices)
    match cell.expected:
        case Expected.REPORTED if end.is_fatal_to_mpi:
            return reported == noticed == 0
        case Expected.REPORTED:
            return (reported == 1 and noticed == 0 and f"{cell.fault.call}:" in end.errors[0] and
                    f"rank {cell.fault.rank})" in end.errors[0])
        case Expected.STUCK:
            return reported == 1 and noticed == 0 and "within the time limit of the watchdog, " in end.errors[0]
        case Expected.GONE:
            return reported == 0 and noticed == 1 and f"rank {cell.fault.rank} " in end.notices[0]
        case Expected.REFUSED if end.crashed_in_mpi:
            return reported == 0 and noticed == 1
        case Expected.REFUSED:
            return reported == 1 and noticed == 0
        case Expected.ENDED:
            return reported + noticed <= 1
    return reported + noticed == 0


def has_right_status(cell: Cell, end: End) -> bool:
    match cell.expected:
        case Expected.SAME:
            return is_same(end)
        case Expected.GONE:
            numbers = {"kill": signal.SIGKILL, "term": signal.SIGTERM, "int": signal.SIGINT}
            return end.status == 128 + (cell.fault.signal or numbers[cell.fault.what])
        case Expected.ENDED:
            return end.status != 0
        case Expected.REPORTED if end.is_fatal_to_mpi:
            return end.status != 0
        case Expected.REFUSED if end.crashed_in_mpi:
            return end.status is not None and end.status > 128
        case Expected.STUCK if launcher_may_fail(cell):
            return end.status != 0
    return end.status == 1 or (launcher_may_fail(cell) and end.launcher_failed)


def launcher_may_fail(cell: Cell) -> bool:
    """Returns whether Open MPI 4.1's launcher may fail. Behind a broken link it waits for its own daemon. Occasionally it also
    crashes (in PMIx_server_finalize) or waits when a rank aborts the job in MPI_Finalize, or when ranks end while they wait
    there for another rank."""
    return cell.fault.what == "cut" or (cell.expected in (Expected.STUCK, Expected.REFUSED, Expected.REPORTED) and
                                        cell.fault.call == "MPI_Finalize")


def judge(cell: Cell, end: End) -> dict[str, bool]:
    """Returns, for each promise of the cell, whether the job kept it."""
    may_end_well = (not end.suffered or cell.expected in (Expected.REFUSED, Expected.ENDED) or
                    (cell.expected == Expected.REPORTED and cell.fault.call in FREEING_CALLS) or
                    (cell.fault.call, cell.fault.phase) == FINAL_QUERY or
                    (cell.fault.signal and end.status == 0))  # The signal may come too late.
    well = may_end_well and is_same(end)
    # If Open MPI's launcher did not end by itself, its own files may remain.
    killed = (cell.fault.rank < 0 and cell.fault.signal == signal.SIGKILL) or (launcher_may_fail(cell) and end.status != 1)
    left = [each for each in end.left if not killed or not each.startswith(("t/ompi.", "t/openmpi", "/dev/shm/"))]
    # A rank that is killed while it renames a file leaves one temporary file, which the next run removes.
    if cell.expected in (Expected.REPORTED, Expected.STUCK, Expected.GONE, Expected.ENDED) and not well:
        parts = [each for each in left if ".tmp-" in each]
        left = [each for each in left if each not in parts[:cell.job.ranks]]
    return {"ended in time": end.status is not None and (not end.launcher_waits or launcher_may_fail(cell)),
            "one message": well or has_one_message(cell, end),
            "right exit": well or has_right_status(cell, end),
            "nothing left": not left and not end.wrong}


class Plan:
    """All cells, in an order determined by a seed."""

    def __init__(self, seed: int, usual: float):
        self._draw = random.Random(seed)
        self._usual = usual
        self._named: collections.Counter[str] = collections.Counter()
        self.cells: list[Cell] = []

    def add(self, row: str, job: Job, expected: Expected, **fault) -> None:
        name = f"{row}; {job.name}; {Fault(**{**fault, 'after': 0}).place}"
        self._named[name] += 1
        self.cells.append(Cell(row, job, Fault(**fault), expected, f"{name} ({self._named[name]})"))

    def add_faults_at_calls(self, job: Job, calls: dict[int, list[tuple[str, str, int]]]) -> None:
        """Adds errors at every call, and the other faults once per phase and rank, at a call in which ranks wait for each
        other."""
        for rank in (0, job.ranks // 2, job.ranks - 1):
            waited = set()
            for number, (phase, call, times) in enumerate(calls[rank]):
                if (phase, call) == ("its own code", "MPI_Comm_set_errhandler"):
                    continue  # This is Boost.MPI's first call; every earlier error is fatal.
                # Picks the first, a middle or the last of these calls in this phase.
                nth = [1, (times + 1) // 2, times][(number + rank) % 3]
                at = {"rank": rank, "call": call, "phase": phase}
                self.add(ERRORS, job, Expected.REPORTED, what="error", nth=nth, **at)
                part = call if call == "MPI_Finalize" else phase
                if call not in WAITING_CALLS or part in waited:
                    continue
                waited.add(part)
                self.add("a call that is late", job, Expected.SAME, what="delay", number=300, nth=nth, **at)
                self.add("SIGKILL in a call", job, Expected.GONE, what="kill", nth=nth, **at)
                self.add("SIGTERM in a call", job, Expected.GONE, what="term", **at)
                self.add("SIGINT in a call", job, Expected.GONE, what="int", **at)
                self.add("no memory from a call on", job, Expected.REFUSED, what="memory", **at)
                self.add("no descriptors from a call on", job, Expected.REFUSED, what="descriptors", **at)
                if part == "its own code":
                    continue  # MPI begins or ends in this phase, and no watchdog runs before and after it.
                begins = ", when a job begins" if phase in BEGINNINGS else ""
                self.add(f"a call that never returns{begins}", job, Expected.STUCK, what="never", **at)
                self.add(f"SIGSTOP in a call{begins}", job, Expected.STUCK, what="stop", **at)

    def add_faults_after_an_error(self, job: Job) -> None:
        """Adds a second error while the ranks report an error that all of them have, and while MPI then ends."""
        for rank in (0, job.ranks // 2, job.ranks - 1):
            for call, phase in (("MPI_Barrier", "report an error"), ("MPI_Finalize", "")):
                self.add("an error of MPI after another one", job, Expected.REFUSED, what="error", rank=rank, call=call,
                         phase=phase)

    def add_other_orders(self, job: Job) -> None:
        for seed in range(1, 4):
            self.add("every rank at an uneven pace", job, Expected.SAME, what="uneven", number=seed)
        for rank in (0, job.ranks // 2, job.ranks - 1):
            self.add("all messages of a rank late", job, Expected.SAME, what="late", rank=rank, number=20)
            self.add("messages that overtake others", job, Expected.SAME, what="overtake", rank=rank)

    def add_signals_at_any_time(self, job: Job, rounds: int) -> None:
        for _ in range(rounds):
            for rank in (0, job.ranks // 2, job.ranks - 1, -1):
                for name in ("KILL", "TERM", "INT", "STOP"):
                    if rank == -1 and name == "STOP":
                        continue  # Stopping the launcher suspends its job as well.
                    expected = (Expected.ENDED if rank == -1 else Expected.STUCK if name == "STOP" else Expected.GONE)
                    first = self._usual / 4  # About now, the ranks have called MPI_Init.
                    last = self._usual / (2 if name == "STOP" else 1)  # well before the other ranks end
                    self.add(f"SIG{name} at any time{', to mpirun' if rank == -1 else ''}", job, expected,
                             signal=signal.Signals[f"SIG{name}"], rank=rank, after=self._draw.uniform(first, last))

    def add_scarce_resources(self, job: Job, is_apart: bool) -> None:
        for rank in (0, job.ranks // 2, job.ranks - 1):
            for limit in ("-v 400000", "-v 600000", "-v 1000000"):
                self.add("an address space that is small", job, Expected.REFUSED, rank=rank, limit=limit)
            for limit in ("-n 64", "-n 48", "-n 40"):
                self.add("few descriptors", job, Expected.REFUSED, rank=rank, limit=limit)
        for size in (4, 32, 64, 128, 256) if is_apart else ():
            self.add("a full disk", job, Expected.REFUSED, disk=size)
        for size in (8, 1024, 4096, 8192, 16384) if is_apart else ():
            self.add("little shared memory", job, Expected.REFUSED, shared_memory=size)

    def add_faults_on_nodes(self, calls: dict[int, list[tuple[str, str, int]]]) -> None:
        self.add("a slow link", ON_SLOW_NODES, Expected.SAME)
        for rank in (0, 2, 3):
            waited = {phase: call for phase, call, _ in reversed(calls[rank]) if call in WAITING_CALLS}
            for phase in (*sorted(BEGINNINGS), "prepare the job", "plan", "exchange", "gather figures", "write the report"):
                if phase not in waited:
                    continue
                at = {"rank": rank, "call": waited[phase], "phase": phase}
                self.add("two nodes: SIGKILL in a call", ON_NODES, Expected.GONE, what="kill", **at)
                if rank > 1:
                    begins = ", when a job begins" if phase in BEGINNINGS else ""
                    self.add(f"two nodes: a cut link{begins}", ON_NODES, Expected.STUCK, what="cut", **at)


COLUMNS = ["ended in time", "one message", "right exit", "nothing left"]


def table(verdicts: list[Verdict], skipped: dict[str, str]) -> str:
    rows = collections.defaultdict(list)
    for verdict in verdicts:
        rows[verdict.row].append(verdict)
    rows["all"] = verdicts
    lines = ["| fault | cells | reached | " + " | ".join(COLUMNS) + " | hangs | longest, s |", "|---" * 9 + "|"]
    for name, row in rows.items():
        kept = [str(sum(verdict.kept[column] for verdict in row)) for column in COLUMNS]
        suffered, hung = (sum(getattr(verdict, which) for verdict in row) for which in ("suffered", "hung"))
        longest = max((verdict.seconds for verdict in row), default=0)
        lines.append(f"| {name} | {len(row)} | {suffered} | " + " | ".join(kept) + f" | {hung} | {longest:.1f} |")
    return "\n".join(lines + [f"skipped: {name}: {reason}" for name, reason in skipped.items()])


def print_failure(cell: Cell, end: End, kept: dict[str, bool]) -> None:
    broken = [column for column in COLUMNS if not kept[column]]
    print(f"not {', not '.join(broken)}: {cell.row}; {cell.job.name}; {cell.fault.place}\n"
          f"  status {end.status} after {end.seconds:.1f} s; left: {end.left}; wrong: {end.wrong}; "
          f"launcher waits: {end.launcher_waits}\n" +
          "".join(f"  | {line}\n" for line in (end.stderr + end.stacks).splitlines()), flush=True)


def plan_cells(runner: Runner, arguments: argparse.Namespace, skipped: dict[str, str]) -> list[Cell]:
    calls = {job.name: runner.record(job) for job in PATHS}
    plan = Plan(arguments.seed, runner.usual)
    for job in PATHS:
        plan.add_faults_at_calls(job, calls[job.name])
        plan.add_other_orders(job)
        plan.add_signals_at_any_time(job, 2)
        plan.add_scarce_resources(job, not skipped)
    plan.add_faults_after_an_error(SHARED_ERROR)
    nodes = subprocess.run([arguments.nodes, "2", "1", "--once", "--", "true"], check=False, capture_output=True, text=True,
                           stdin=subprocess.DEVNULL)
    if nodes.returncode == 0:
        runner.record(ON_SLOW_NODES)
        plan.add_faults_on_nodes(runner.record(ON_NODES))
    else:
        skipped["faults on nodes"] = nodes.stderr.strip()
    return plan.cells


def read_verdicts(file: pathlib.Path | None, program: str) -> dict[str, Verdict]:
    """Returns the verdicts of earlier runs of this program. The first line of the file identifies the program. Creates the file
    if it does not exist."""
    if file is None:
        return {}
    program_id = {"program": hashlib.sha256(pathlib.Path(program).read_bytes()).hexdigest()}
    if not file.exists():
        file.write_text(json.dumps(program_id) + "\n", encoding="utf-8")
    first, *rest = file.read_text(encoding="utf-8").splitlines()
    if json.loads(first) != program_id:
        raise SystemExit(f"{file} has results of a program other than {program}: name another file")
    verdicts = [Verdict(**json.loads(line)) for line in rest]
    return {verdict.cell: verdict for verdict in verdicts}


def run_cell(runner: Runner, cell: Cell, results: pathlib.Path | None) -> Verdict:
    end = runner.run(cell.job, cell.fault)
    kept = judge(cell, end)
    if not all(kept.values()):
        print_failure(cell, end, kept)
    verdict = Verdict(cell.name, cell.row, end.suffered, end.status is None, round(end.seconds, 2), kept)
    if results is not None:
        with results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(dataclasses.asdict(verdict)) + "\n")
    return verdict


def choose(cells: list[Cell], arguments: argparse.Namespace) -> list[Cell]:
    """Returns the requested cells."""
    chosen = []
    rows = collections.defaultdict(list)
    for cell in cells:
        if re.search(arguments.only, f"{cell.row}; {cell.job.name}; {cell.fault.place}"):
            rows[cell.row].append(cell)
    draw = random.Random(arguments.seed)
    for name, row in rows.items():
        count = arguments.each * (ERRORS_TO_OTHERS if name == ERRORS else 1)
        chosen += row if arguments.each == 0 or count >= len(row) else draw.sample(row, count)
    return chosen


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("library")
    parser.add_argument("--launcher", default="mpirun --oversubscribe", help="starts a program on ranks")
    parser.add_argument("--nodes", required=True, help="launch/simulate-nodes.sh")
    parser.add_argument("--each", type=int, default=0, metavar="COUNT",
                        help=f"number of cells per kind of fault, and {ERRORS_TO_OTHERS} times as many errors of MPI")
    parser.add_argument("--only", default="", metavar="PATTERN", help="only cells whose names match")
    parser.add_argument("--seed", type=int, default=1, help="decides the times of signals, and the cells that --each chooses")
    parser.add_argument("--results", type=pathlib.Path, metavar="FILE",
                        help="records the result of each cell; cells that have a result there are not run again")
    parser.add_argument("--apart", choices=["no", "yes"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.apart is None:
        return run_in_own_namespace()
    skipped = {} if arguments.apart == "yes" else {"a full disk, little shared memory": "mounting file systems is not permitted here"}
    cells: list[Cell] = []
    verdicts: list[Verdict] = []
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="ekf-"))
    try:
        runner = Runner(arguments.program, arguments.library, shlex.split(arguments.launcher), arguments.nodes, scratch,
                        arguments.apart == "yes")
        every = plan_cells(runner, arguments, skipped)
        cells = choose(every, arguments)
        before = read_verdicts(arguments.results, arguments.program)
        verdicts = [before[cell.name] for cell in cells if cell.name in before]
        print(f"{len(cells)} of {len(every)} cells, {len(verdicts)} of them run before, seed {arguments.seed}; "
              f"a job hangs after {LIMIT} s", flush=True)
        for cell in cells:
            if cell.name in before:
                continue
            verdicts.append(run_cell(runner, cell, arguments.results))
            if len(verdicts) % 50 == 0:
                print(f"{len(verdicts)} of {len(cells)}", flush=True)
    except KeyboardInterrupt:
        print("interrupted")  # The results so far are printed below.
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(table(verdicts, skipped))
    return 0 if verdicts and len(verdicts) == len(cells) and all(all(verdict.kept.values()) for verdict in verdicts) else 1


def run_in_own_namespace() -> int:
    """Runs this program again in a mount namespace of its own, which has its own /dev/shm, or in the current one if that is not
    permitted."""
    own = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--", "sh", "-c",
           'mount -t tmpfs evenkeel /dev/shm && exec "$@"', "apart"]
    may = subprocess.run([*own, "true"], check=False, capture_output=True, stdin=subprocess.DEVNULL).returncode == 0
    command = [sys.executable, *sys.argv, "--apart", "yes" if may else "no"]
    return subprocess.run([*own, *command] if may else command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
