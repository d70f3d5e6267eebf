"""Starts jobs of `evenkeel run` with an injected fault, and collects what they leave behind."""

import dataclasses
import json
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import time

LIMIT = 120  # seconds after which a job counts as hanging
WATCHDOG = 8  # the job's watchdog.seconds
PATIENCE = 10  # seconds for which a launcher may run after all ranks have ended
GRACE = 10  # seconds in which a launcher's processes must end
POLL = 0.002
TAG = "FAULT_CELL"


@dataclasses.dataclass(frozen=True)
class Job:
    """A job on this many ranks that uses one path of the exchange."""

    name: str
    settings: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    ranks: int = 4
    nodes: str = ""  # number of ranks on each simulated node
    rate: str = ""  # bandwidth of the links between nodes


@dataclasses.dataclass(frozen=True)
class Fault:
    """A fault: what happens, on which rank and where. The words are those of faulty_mpi.cpp."""

    what: str = ""
    rank: int = 0
    call: str = ""
    phase: str = ""
    nth: int = 1
    number: int = 0
    # The signal is sent from outside after this many seconds, to a rank or, if the rank is -1, to the launcher.
    signal: int = 0
    after: float = 0
    # Resource limits of that rank from its start.
    limit: str = ""
    # Sizes of file systems in KiB.
    disk: int = 0
    shared_memory: int = 0

    @property
    def place(self) -> str:
        at = f"{self.call} {self.nth} in {self.phase}" if self.call else f"after {self.after:.2f} s" if self.signal else ""
        return f"{self.what or self.limit or signal.Signals(self.signal or 1).name} on rank {self.rank} {at}".strip()


@dataclasses.dataclass
class End:
    """How a job ended."""

    seconds: float
    status: int | None  # None: the job did not end
    stderr: str
    suffered: bool
    left: list[str]  # files and processes that should not remain
    wrong: list[str]  # output that differs from that of the undisturbed job
    complete: bool  # All output of the undisturbed job exists.
    launcher_waits: bool = False  # The launcher still ran after all ranks had ended.
    too_late: bool = False  # A rank was stopped after all others had ended; it has been continued since.
    stacks: str = ""  # stacks of a job that hung

    @property
    def errors(self) -> list[str]:
        return re.findall(r"^evenkeel: error: (.*)$", self.stderr, re.MULTILINE)

    @property
    def notices(self) -> list[str]:
        """Returns the launcher's messages about processes that were ended by a signal."""
        return re.findall(r"noticed that process rank \d+ with PID \d+ on node \S+ exited on\s+signal \d+", self.stderr)

    @property
    def launcher_failed(self) -> bool:
        """Returns whether the launcher itself crashed, or still ran after all ranks had ended."""
        return self.launcher_waits or (self.status is not None and self.status < 0)

    @property
    def is_fatal_to_mpi(self) -> bool:
        """Returns whether MPI itself reported the error and ended the process, as it does for errors on MPI_COMM_SELF. Open MPI
        4.1's launcher sometimes loses such a message, and reports that it did."""
        reported = re.findall(r"\*\*\* on communicator MPI_COMM_SELF$", self.stderr, re.MULTILINE)
        lost = re.search(r"ORTE_ERROR_LOG: .* in file \S*orte/util/show_help\.c", self.stderr)
        return len(reported) == 1 or bool(lost and not reported and not self.errors)

    @property
    def crashed_in_mpi(self) -> bool:
        """Returns whether a rank crashed inside Open MPI 4.1, as may happen if memory runs out: the innermost frame is Open
        MPI's."""
        return not self.launcher_failed and re.search(r"\[ 1\] \S*(libmpi|openmpi|libopen|libpmix)\S*\(", self.stderr) is not None


def send(pid: int, number: int) -> None:
    """Sends a signal, unless the process has ended."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


class Processes:
    """Processes started by a job. They are found by a tag in their environment, even if they are no longer children of the job.
    """

    def __init__(self, tag: str):
        self._tag = f"{TAG}={tag}".encode()

    def all(self, states: str = "") -> dict[int, int]:
        """Maps processes to their ranks, or to -1 if they are not ranks. With `states`, returns only processes in one of these
        states (as in ps)."""
        found = {}
        for entry in os.scandir("/proc"):
            if not entry.name.isdigit():
                continue
            try:
                environment = pathlib.Path(entry.path, "environ").read_bytes().split(b"\0")
                state = pathlib.Path(entry.path, "stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
            except OSError:
                continue  # The process has ended in the meantime.
            if self._tag not in environment or state == "Z" or (states and state not in states):
                continue
            ranks = [int(word.split(b"=")[1]) for word in environment if word.startswith(b"OMPI_COMM_WORLD_RANK=")]
            found[int(entry.name)] = ranks[0] if ranks else -1
        return found

    def rank(self, number: int) -> list[int]:
        """Returns the processes of a rank after they have executed the program, so a signal does not hit the shell before it.
        """
        return [pid for pid, rank in self.all().items() if rank == number and self._name(pid) != "bash"]

    @staticmethod
    def _name(pid: int) -> str:
        try:
            return pathlib.Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip()
        except OSError:
            return ""  # The process has ended in the meantime.

    def are_stopped(self) -> bool:
        """Returns whether at least one rank is alive and all living ranks are stopped."""
        ranks = [pid for pid, rank in self.all().items() if rank >= 0]
        return bool(ranks) and set(ranks) <= set(self.all("T"))

    def send_to_ranks(self, number: int) -> None:
        for pid, rank in self.all().items():
            if rank >= 0:
                send(pid, number)

    def stacks(self) -> str:
        gdb = shutil.which("gdb")
        text = ""
        for pid, rank in self.all().items():
            if rank < 0:
                continue
            command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()[:120]
            text += f"--- process {pid}, rank {rank}: {command}\n"
            if gdb is not None:
                try:
                    shown = subprocess.run([gdb, "-p", str(pid), "-batch", "-ex", "thread apply all bt 12"], check=False,
                                           capture_output=True, text=True, timeout=20)
                except subprocess.TimeoutExpired:
                    continue  # gdb waits for a process that is stopped.
                text += "".join(line + "\n" for line in shown.stdout.splitlines() if re.match(r"#|Thread", line))
        return text

    def end(self) -> None:
        for _ in range(50):
            for pid in self.all():
                send(pid, signal.SIGKILL)
            if not self.all():
                return
            time.sleep(0.1)


def write_rollouts(path: pathlib.Path) -> None:
    draw = random.Random(7)
    with path.open("w", encoding="utf-8") as file:
        for number in range(48):
            tokens = [draw.randrange(32000) for _ in range(draw.randrange(8, 160))]
            line = {"uid": f"q{number // 4}", "prompt_ids": tokens[:4], "response_ids": tokens[4:],
                    "reward": draw.random(), "advantages": [draw.random() for _ in tokens[4:]]}
            file.write(json.dumps(line) + "\n")


def is_whole(path: pathlib.Path) -> bool:
    """Returns whether the content of a file in its final location is complete."""
    data = path.read_bytes()
    try:
        if path.suffix == ".json":
            json.loads(data)
        elif path.suffix == ".safetensors":
            size = struct.unpack("<Q", data[:8])[0]
            tensors = json.loads(data[8:8 + size])
            ends = [tensor["data_offsets"][1] for name, tensor in tensors.items() if name != "__metadata__"]
            return len(data) == 8 + size + max(ends, default=0)
        return True
    except (ValueError, struct.error):
        return False


def products_of(folder: pathlib.Path) -> dict[str, bytes]:
    """Returns the files that must be equal for equal jobs."""
    return {str(path.relative_to(folder)): path.read_bytes()
            for kind in ("dump", "results") for path in (folder / kind).rglob("*.safetensors")}


def whole_files(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns the files that a later program may read. A trace grows, and may be read at any length, so it is left out."""
    return [path for path in folder.rglob("*")
            if path.is_file() and path.name != "trace.json" and path.suffix in (".json", ".safetensors")]


class Runner:
    """Runs jobs in folders below `scratch`. If `is_apart`, this program may mount file systems and has its own /dev/shm."""

    def __init__(self, program: str, library: str, launcher: list[str], nodes: str, scratch: pathlib.Path,
                 is_apart: bool):
        self._program = program
        self._library = library
        self._launcher = launcher
        self._nodes = nodes
        self._scratch = scratch
        self._is_apart = is_apart
        self._activity = self._address_of_activity()
        self._products: dict[str, dict[str, bytes]] = {}
        self._started = 0
        self._mounted: list[pathlib.Path] = []  # mounts of the current job
        self.usual = 0.0  # duration of an undisturbed job, in seconds
        write_rollouts(scratch / "rollouts.jsonl")
        (scratch / "job.yaml").write_text(
            f"source: {{kind: jsonl, path: {scratch}/rollouts.jsonl}}\n"
            "batch: {global_batch: 12, shuffle: true}\n"
            "micro_batch: {max_tokens: 600}\n", encoding="utf-8")

    def _address_of_activity(self) -> str:
        symbols = subprocess.run(["nm", self._program], check=True, capture_output=True, text=True).stdout
        found = re.search(r"^([0-9a-f]+) \w _ZN8evenkeel10activitiesEv$", symbols, re.MULTILINE)
        if found is None:
            raise SystemExit(f"{self._program} has no symbols, so that nobody can say in which phase it is")
        return found[1]

    def record(self, job: Job) -> dict[int, list[tuple[str, str, int]]]:
        """Runs the job undisturbed, and returns each rank's calls: the phase, the MPI call, and how often it is made."""
        folder = self._scratch / "record"
        end = self._run_in(folder, job, Fault("record"))
        if end.status != 0:
            raise SystemExit(f"the undisturbed job '{job.name}' ends with status {end.status}:\n{end.stderr}{end.stacks}")
        self._products[job.name] = products_of(folder)
        self.usual = max(self.usual, end.seconds)
        calls = {}
        for rank in range(job.ranks):
            lines = (folder / f"calls.{rank}").read_text(encoding="utf-8").splitlines()
            calls[rank] = [(phase, call, int(times)) for phase, call, times in (line.split("\t") for line in lines)]
        shutil.rmtree(folder)
        return calls

    def run(self, job: Job, fault: Fault) -> End:
        self._started += 1
        folder = self._scratch / f"c{self._started}"
        try:
            return self._run_in(folder, job, fault)
        finally:
            self._unmount()
            shutil.rmtree(folder, ignore_errors=True)

    def _run_in(self, folder: pathlib.Path, job: Job, fault: Fault) -> End:
        out, temporary = folder / "out", folder / "t"
        out.mkdir(parents=True)
        temporary.mkdir()
        if fault.disk:
            self._mount(out, fault.disk)
        if fault.shared_memory:
            self._mount(pathlib.Path("/dev/shm"), fault.shared_memory)
        shared_before = set(os.listdir("/dev/shm"))
        processes = Processes(folder.name + str(os.getpid()))
        begin = time.monotonic()
        with (folder / "err").open("wb") as errors:
            started = subprocess.Popen(self._command(job, fault, out), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                       stderr=errors, env=self._environment(job, fault, folder), start_new_session=True)
        if fault.signal:
            self._send(fault, job.ranks, started, processes, folder)
        status, launcher_waits, too_late, stacks = self._wait(started, processes, begin, folder)
        seconds = time.monotonic() - begin
        left = self._left(processes, folder, shared_before)
        processes.end()
        started.wait()
        stderr = (folder / "err").read_text(encoding="utf-8", errors="replace")
        made, expected = products_of(out), self._products.get(job.name, {})
        wrong = [name for name, data in made.items() if expected and expected.get(name) != data]
        wrong += [str(path.relative_to(out)) for path in whole_files(out) if not is_whole(path)]
        if fault.what == "record" and status == 0:
            for kind in ("dump", "results"):
                shutil.move(out / kind, folder / kind)
        suffered = ((folder / "suffered").exists() or not fault.call) and not too_late
        complete = made.keys() == expected.keys()
        return End(seconds, status, stderr, suffered, left, wrong, complete, launcher_waits, too_late, stacks)

    def _command(self, job: Job, fault: Fault, out: pathlib.Path) -> list[str]:
        launcher = [*self._launcher, "-np", str(job.ranks)]
        if job.nodes:
            launcher = [self._nodes, str(len(job.nodes.split(","))), job.nodes, *(["--rate", job.rate] if job.rate else []),
                        "--"]
        command = [self._program, "run", str(self._scratch / "job.yaml"), *job.options, "--progress", "off"]
        # watchdog.seconds is given here, since it applies before the configuration is read.
        for setting in (f"watchdog.seconds={WATCHDOG}", *job.settings):
            command += ["--set", setting]
        for kind in ("dump", "state", "report", "trace", "results"):
            command += [f"--{kind}", str(out / kind)]
        limited = f'test "$OMPI_COMM_WORLD_RANK" != {fault.rank} || ulimit {fault.limit}; ' if fault.limit else ""
        # The library is preloaded only into ranks, not into launchers and daemons.
        begin = f'{limited}export LD_PRELOAD="{self._library}"; exec "$@"'
        return [*launcher, "bash", "-c", begin, "rank", *command]

    def _environment(self, job: Job, fault: Fault, folder: pathlib.Path) -> dict[str, str]:
        environment = dict(os.environ)
        environment[TAG] = folder.name + str(os.getpid())
        environment["TMPDIR"] = str(folder / "t")
        given = {"FAULT": fault.what, "FAULT_RANK": fault.rank, "FAULT_CALL": fault.call, "FAULT_PHASE": fault.phase,
                 "FAULT_NTH": fault.nth, "FAULT_NUMBER": fault.number, "FAULT_FOLDER": folder,
                 "FAULT_ACTIVITY": self._activity}
        environment.update({name: str(value) for name, value in given.items()})
        if job.nodes:  # Daemons on nodes start with an environment of their own.
            environment["OMPI_MCA_mca_base_env_list"] = ";".join([*given, TAG])
        return environment

    def _send(self, fault: Fault, ranks: int, started: subprocess.Popen, processes: Processes, folder: pathlib.Path) -> None:
        """Sends the signal after `fault.after` seconds, but not before the ranks have called MPI_Init: a signal during startup
        may end mpirun itself. A rank is stopped only while a watchdog observes it: after the job has begun to write, and before
        the report, since watchdogs end soon after it."""
        time.sleep(fault.after)
        out = folder / "out"
        awaited = [folder / f"begun.{rank}" for rank in range(ranks)]
        if fault.signal == signal.SIGSTOP:
            awaited.append(out / "dump" / "evenkeel-run.json")
        while started.poll() is None:
            if fault.signal == signal.SIGSTOP and (out / "report" / "report.json").exists():
                return
            ready = all(file.exists() for file in awaited)
            chosen = [started.pid] if fault.rank < 0 else processes.rank(fault.rank)
            if chosen and ready:
                for pid in chosen:
                    send(pid, fault.signal)
                return
            time.sleep(POLL)

    @staticmethod
    def _wait(started: subprocess.Popen, processes: Processes, begin: float,
              folder: pathlib.Path) -> tuple[int | None, bool, bool, str]:
        """Returns the status; whether the launcher still ran after all ranks had ended, and was killed; whether a rank was
        stopped after the others had ended successfully, so no rank could notice; and the stacks of a job that hung."""
        had_ranks, with_ranks, moving, too_late = False, 0.0, time.monotonic(), False
        while True:
            try:
                return started.wait(0.25), False, too_late, ""
            except subprocess.TimeoutExpired:
                now = time.monotonic()
            if any(rank >= 0 for rank in processes.all().values()):
                had_ranks, with_ranks = True, now
            elif not had_ranks and (folder / "begun.0").exists():
                had_ranks, with_ranks = True, now  # All ranks have ended.
            if not processes.are_stopped():
                moving = now
            if had_ranks and now - with_ranks > PATIENCE:
                processes.end()
                return started.wait(), True, too_late, ""
            stderr = (folder / "err").read_text(encoding="utf-8", errors="replace")
            if now - moving > PATIENCE and "evenkeel: error: " not in stderr:
                too_late, moving = True, now
                processes.send_to_ranks(signal.SIGCONT)
            if now - begin > LIMIT:
                return None, False, too_late, processes.stacks()

    def _left(self, processes: Processes, folder: pathlib.Path, shared_before: set[str]) -> list[str]:
        end = time.monotonic() + GRACE
        while processes.all() and time.monotonic() < end:
            time.sleep(0.02)
        left = [f"process {pid} (rank {rank})" for pid, rank in processes.all().items()]
        left += [str(path.relative_to(folder)) for path in folder.rglob("*.tmp-*")]
        left += [str(path.relative_to(folder)) for path in (folder / "t").rglob("*") if not path.is_dir()]
        if self._is_apart:  # Otherwise, the files may belong to another program.
            left += [f"/dev/shm/{name}" for name in set(os.listdir("/dev/shm")) - shared_before]
        return left

    def _mount(self, place: pathlib.Path, size: int) -> None:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}k", "evenkeel", str(place)], check=True)
        self._mounted.append(place)

    def _unmount(self) -> None:
        while self._mounted:
            subprocess.run(["umount", str(self._mounted.pop())], check=True)
