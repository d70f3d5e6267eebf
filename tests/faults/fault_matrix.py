#!/usr/bin/env python3
"""fault_matrix.py PROGRAM LIBRARY [OPTIONS]: lets ranks of small jobs suffer faults, one a job, and looks at how each
ends: in time, with one message that says what happened, with the right status, and with nothing left behind. Prints a
table; fails when a job does not end as it should.

PROGRAM is evenkeel, LIBRARY tests/faults/faulty_mpi.cpp. Faults that come at calls of MPI come where an undisturbed run
makes them: each call in each phase of a step, on the first, a middle and the last rank, on each path of the exchange.
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
# All ranks have an error, which one of them tells.
WRONG = Job("an error of all", ("source.path=/does/not/exist",))
ERRORS = "an error of MPI"
ERRORS_TO_OTHERS = 10
# What is freed at the end of its use: an error there loses nothing, and is nobody's.
FREES = {"MPI_Comm_free", "MPI_Group_free", "MPI_Op_free", "MPI_Type_free"}
# A service that goes asks whether there still is somebody to tell.
ASKS_AT_THE_END = ("MPI_Comm_test_inter", "its own code")
# Phases in which ranks begin to watch each other.
BEGINNINGS = {"ranks meet", "watchdogs meet", "read the configuration"}
WAITS = {"MPI_Allgather", "MPI_Allgatherv", "MPI_Allreduce", "MPI_Alltoallw", "MPI_Barrier", "MPI_Bcast",
         "MPI_Comm_create_group", "MPI_Comm_dup", "MPI_Comm_split", "MPI_Comm_split_type", "MPI_Finalize", "MPI_Gather",
         "MPI_Iallreduce", "MPI_Recv", "MPI_Reduce", "MPI_Test", "MPI_Testall", "MPI_Wait",
         "MPI_Waitall", "MPI_Waitany"}


class Expected(enum.Enum):
    """How a job should end."""

    SAME = enum.auto()  # well, and with what the undisturbed one made
    TOLD = enum.auto()  # the rank that has the error tells it
    STUCK = enum.auto()  # the watchdog tells
    GONE = enum.auto()  # the launcher tells
    REFUSED = enum.auto()  # all ranks have an error, and one tells it; or the fault does not matter
    ENDED = enum.auto()  # by a user, who knows


@dataclasses.dataclass(frozen=True)
class Cell:
    row: str
    job: Job
    fault: Fault
    expected: Expected
    name: str = ""  # of its own, whatever the seed


@dataclasses.dataclass
class Verdict:
    """What came of a cell."""

    cell: str
    row: str
    suffered: bool
    hung: bool
    seconds: float
    kept: dict[str, bool]


def is_same(end: End) -> bool:
    return end.status == 0 and end.complete and not end.wrong and not end.errors and not end.notices


def has_one_message(cell: Cell, end: End) -> bool:
    told, noticed = len(end.errors), len(end.notices)
    match cell.expected:
        case Expected.TOLD if end.is_fatal_to_mpi:
            return told == noticed == 0
        case Expected.TOLD:
            return (told == 1 and noticed == 0 and f"{cell.fault.call}:" in end.errors[0] and
                    f"rank {cell.fault.rank})" in end.errors[0])
        case Expected.STUCK:
            return told == 1 and noticed == 0 and "(watchdog.seconds: " in end.errors[0]
        case Expected.GONE:
            return told == 0 and noticed == 1 and f"rank {cell.fault.rank} " in end.notices[0]
        case Expected.REFUSED if end.crashed_in_mpi:
            return told == 0 and noticed == 1
        case Expected.REFUSED:
            return told == 1 and noticed == 0
        case Expected.ENDED:
            return told + noticed <= 1
    return told + noticed == 0


def has_right_status(cell: Cell, end: End) -> bool:
    match cell.expected:
        case Expected.SAME:
            return is_same(end)
        case Expected.GONE:
            numbers = {"kill": signal.SIGKILL, "term": signal.SIGTERM, "int": signal.SIGINT}
            return end.status == 128 + (cell.fault.signal or numbers[cell.fault.what])
        case Expected.ENDED:
            return end.status != 0
        case Expected.TOLD if end.is_fatal_to_mpi:
            return end.status != 0
        case Expected.REFUSED if end.crashed_in_mpi:
            return end.status is not None and end.status > 128
        case Expected.STUCK if launcher_may_fail(cell):
            return end.status != 0
    return end.status == 1 or (launcher_may_fail(cell) and end.launcher_failed)


def launcher_may_fail(cell: Cell) -> bool:
    """Open MPI 4.1's launcher waits for its own daemon behind a broken link. It also crashes (in PMIx_server_finalize) or
    waits, now and then, when a rank aborts the job in MPI_Finalize, or ranks end that wait there for another one."""
    return cell.fault.what == "cut" or (cell.expected in (Expected.STUCK, Expected.REFUSED, Expected.TOLD) and
                                        cell.fault.call == "MPI_Finalize")


def judge(cell: Cell, end: End) -> dict[str, bool]:
    """What the cell promises, and whether the job kept it."""
    may_end_well = (not end.suffered or cell.expected in (Expected.REFUSED, Expected.ENDED) or
                    (cell.expected == Expected.TOLD and cell.fault.call in FREES) or
                    (cell.fault.call, cell.fault.phase) == ASKS_AT_THE_END or
                    (cell.fault.signal and end.status == 0))  # which may come too late
    well = may_end_well and is_same(end)
    # What is Open MPI's stays where its launcher did not end by itself.
    killed = (cell.fault.rank < 0 and cell.fault.signal == signal.SIGKILL) or (launcher_may_fail(cell) and end.status != 1)
    left = [each for each in end.left if not killed or not each.startswith(("t/ompi.", "t/openmpi", "/dev/shm/"))]
    # A rank that is killed in the moment in which a file gets its name leaves one part; the next run removes it.
    if cell.expected in (Expected.TOLD, Expected.STUCK, Expected.GONE, Expected.ENDED) and not well:
        parts = [each for each in left if ".tmp-" in each]
        left = [each for each in left if each not in parts[:cell.job.ranks]]
    return {"ended in time": end.status is not None and (not end.launcher_waits or launcher_may_fail(cell)),
            "one message": well or has_one_message(cell, end),
            "right exit": well or has_right_status(cell, end),
            "nothing left": not left and not end.wrong}


class Plan:
    """All cells, in an order that a seed decides."""

    def __init__(self, seed: int, usual: float):
        self._draw = random.Random(seed)
        self._usual = usual
        self._named: collections.Counter[str] = collections.Counter()
        self.cells: list[Cell] = []

    def add(self, row: str, job: Job, expected: Expected, **fault) -> None:
        name = f"{row}; {job.name}; {Fault(**{**fault, 'after': 0}).place}"
        self._named[name] += 1
        self.cells.append(Cell(row, job, Fault(**fault), expected, f"{name} ({self._named[name]})"))

    def at_calls(self, job: Job, calls: dict[int, list[tuple[str, str, int]]]) -> None:
        """Errors at every call; the rest where ranks wait for each other, once a phase and rank."""
        for rank in (0, job.ranks // 2, job.ranks - 1):
            waited = set()
            for number, (phase, call, times) in enumerate(calls[rank]):
                if (phase, call) == ("its own code", "MPI_Comm_set_errhandler"):
                    continue  # Boost.MPI's first call, before which every error is fatal
                # The first, a middle or the last of those in this phase.
                nth = [1, (times + 1) // 2, times][(number + rank) % 3]
                at = {"rank": rank, "call": call, "phase": phase}
                self.add(ERRORS, job, Expected.TOLD, what="error", nth=nth, **at)
                part = call if call == "MPI_Finalize" else phase
                if call not in WAITS or part in waited:
                    continue
                waited.add(part)
                self.add("a call that is late", job, Expected.SAME, what="delay", number=300, nth=nth, **at)
                self.add("SIGKILL in a call", job, Expected.GONE, what="kill", nth=nth, **at)
                self.add("SIGTERM in a call", job, Expected.GONE, what="term", **at)
                self.add("SIGINT in a call", job, Expected.GONE, what="int", **at)
                self.add("no memory from a call on", job, Expected.REFUSED, what="memory", **at)
                self.add("no descriptors from a call on", job, Expected.REFUSED, what="descriptors", **at)
                if part == "its own code":
                    continue  # in which MPI begins, or ends: nobody watches before and after
                begins = ", when a job begins" if phase in BEGINNINGS else ""
                self.add(f"a call that never returns{begins}", job, Expected.STUCK, what="never", **at)
                self.add(f"SIGSTOP in a call{begins}", job, Expected.STUCK, what="stop", **at)

    def at_the_end_of(self, job: Job) -> None:
        """An error more, while one is told that all ranks have, and while MPI ends then."""
        for rank in (0, job.ranks // 2, job.ranks - 1):
            for call, phase in (("MPI_Barrier", "report an error"), ("MPI_Finalize", "")):
                self.add("an error of MPI after another one", job, Expected.REFUSED, what="error", rank=rank, call=call,
                         phase=phase)

    def in_other_orders(self, job: Job) -> None:
        for seed in range(1, 4):
            self.add("every rank at an uneven pace", job, Expected.SAME, what="uneven", number=seed)
        for rank in (0, job.ranks // 2, job.ranks - 1):
            self.add("all messages of a rank late", job, Expected.SAME, what="late", rank=rank, number=20)
            self.add("messages that overtake others", job, Expected.SAME, what="overtake", rank=rank)

    def at_any_time(self, job: Job, rounds: int) -> None:
        for _ in range(rounds):
            for rank in (0, job.ranks // 2, job.ranks - 1, -1):
                for name in ("KILL", "TERM", "INT", "STOP"):
                    if rank == -1 and name == "STOP":
                        continue  # a launcher that is stopped is suspended with its job
                    expected = (Expected.ENDED if rank == -1 else Expected.STUCK if name == "STOP" else Expected.GONE)
                    first = self._usual / 4  # about when the ranks have begun with MPI
                    last = self._usual / (2 if name == "STOP" else 1)  # well before the others have ended
                    self.add(f"SIG{name} at any time{', to mpirun' if rank == -1 else ''}", job, expected,
                             signal=signal.Signals[f"SIG{name}"], rank=rank, after=self._draw.uniform(first, last))

    def with_little(self, job: Job, is_apart: bool) -> None:
        for rank in (0, job.ranks // 2, job.ranks - 1):
            for limit in ("-v 400000", "-v 600000", "-v 1000000"):
                self.add("an address space that is small", job, Expected.REFUSED, rank=rank, limit=limit)
            for limit in ("-n 64", "-n 48", "-n 40"):
                self.add("few descriptors", job, Expected.REFUSED, rank=rank, limit=limit)
        for size in (4, 32, 64, 128, 256) if is_apart else ():
            self.add("a full disk", job, Expected.REFUSED, disk=size)
        for size in (8, 1024, 4096, 8192, 16384) if is_apart else ():
            self.add("little shared memory", job, Expected.REFUSED, shared_memory=size)

    def on_nodes(self, calls: dict[int, list[tuple[str, str, int]]]) -> None:
        self.add("a slow link", ON_SLOW_NODES, Expected.SAME)
        for rank in (0, 2, 3):
            waited = {phase: call for phase, call, _ in reversed(calls[rank]) if call in WAITS}
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


def tell(cell: Cell, end: End, kept: dict[str, bool]) -> None:
    broken = [column for column in COLUMNS if not kept[column]]
    print(f"not {', not '.join(broken)}: {cell.row}; {cell.job.name}; {cell.fault.place}\n"
          f"  status {end.status} after {end.seconds:.1f} s; left: {end.left}; wrong: {end.wrong}; "
          f"launcher waits: {end.launcher_waits}\n" +
          "".join(f"  | {line}\n" for line in (end.said + end.stacks).splitlines()), flush=True)


def plan_cells(runner: Runner, arguments: argparse.Namespace, skipped: dict[str, str]) -> list[Cell]:
    calls = {job.name: runner.record(job) for job in PATHS}
    plan = Plan(arguments.seed, runner.usual)
    for job in PATHS:
        plan.at_calls(job, calls[job.name])
        plan.in_other_orders(job)
        plan.at_any_time(job, 2)
        plan.with_little(job, not skipped)
    plan.at_the_end_of(WRONG)
    nodes = subprocess.run([arguments.nodes, "2", "1", "--once", "--", "true"], check=False, capture_output=True, text=True,
                           stdin=subprocess.DEVNULL)
    if nodes.returncode == 0:
        runner.record(ON_SLOW_NODES)
        plan.on_nodes(runner.record(ON_NODES))
    else:
        skipped["faults on nodes"] = nodes.stderr.strip()
    return plan.cells


def read_verdicts(file: pathlib.Path | None, program: str) -> dict[str, Verdict]:
    """Returns the verdicts of earlier runs of this program. The file names the program first, and a new file is begun."""
    if file is None:
        return {}
    tried = {"program": hashlib.sha256(pathlib.Path(program).read_bytes()).hexdigest()}
    if not file.exists():
        file.write_text(json.dumps(tried) + "\n", encoding="utf-8")
    first, *rest = file.read_text(encoding="utf-8").splitlines()
    if json.loads(first) != tried:
        raise SystemExit(f"{file} has results of another program than {program}: give another file")
    verdicts = [Verdict(**json.loads(line)) for line in rest]
    return {verdict.cell: verdict for verdict in verdicts}


def run_cell(runner: Runner, cell: Cell, results: pathlib.Path | None) -> Verdict:
    end = runner.run(cell.job, cell.fault)
    kept = judge(cell, end)
    if not all(kept.values()):
        tell(cell, end, kept)
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
                        help=f"only so many cells of each kind of fault, and {ERRORS_TO_OTHERS} times as many errors of MPI")
    parser.add_argument("--only", default="", metavar="PATTERN", help="only cells whose names match")
    parser.add_argument("--seed", type=int, default=1, help="of moments, and of the cells of --each")
    parser.add_argument("--results", type=pathlib.Path, metavar="FILE",
                        help="what comes of each cell goes there, and cells that are there are not run again")
    parser.add_argument("--apart", choices=["no", "yes"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.apart is None:
        return go_apart()
    skipped = {} if arguments.apart == "yes" else {"a full disk, little shared memory": "no file system may be mounted here"}
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
        print("interrupted")  # what was found so far is told all the same
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    print(table(verdicts, skipped))
    return 0 if verdicts and len(verdicts) == len(cells) and all(all(verdict.kept.values()) for verdict in verdicts) else 1


def go_apart() -> int:
    """Again, where only this program sees what it mounts; /dev/shm is then its own. Where that is not permitted, here."""
    own = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--", "sh", "-c",
           'mount -t tmpfs evenkeel /dev/shm && exec "$@"', "apart"]
    may = subprocess.run([*own, "true"], check=False, capture_output=True, stdin=subprocess.DEVNULL).returncode == 0
    command = [sys.executable, *sys.argv, "--apart", "yes" if may else "no"]
    return subprocess.run([*own, *command] if may else command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
