#!/usr/bin/env python3
"""Kills jobs at random moments, resumes them, and compares what they delivered with jobs that were never killed.

    kill_and_resume.py PROGRAM [--rounds N] [--seed S] [--scratch DIR] [--nodes SCRIPT] [--mpirun COMMAND]

Each round is a separate job: one random rank is killed (SIGKILL) at a moment of the round's kind, and the job is resumed, which
may be killed again, until it ends. A fifth of the rounds resume on another mesh or another number of ranks, and with --nodes
(launch/simulate-nodes.sh) a fifth run their ranks on two nodes. Each step delivered by a mesh must equal, byte by byte, the
step that a job that was never killed delivers on that mesh.

Prints a table in Markdown. Exit status: 0 if nothing was lost, repeated or different, 1 if something was, 2 if jobs could not
be run.
"""

import argparse
import collections
import dataclasses
import filecmp
import json
import os
import pathlib
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

STEPS = 24
SAMPLES = 12 * 16
DEADLINE = 120  # seconds after which a job counts as hanging
PATIENCE = 20  # seconds for which a launcher may run after all ranks have ended
POLL = 0.0005


@dataclasses.dataclass(frozen=True)
class Mesh:
    """The ranks and the mesh of a job."""

    ranks: int
    settings: tuple[str, ...] = ()
    nodes: str = ""  # number of ranks on each simulated node

    @property
    def name(self) -> str:
        return "-".join([str(self.ranks), *self.settings, self.nodes]).replace("=", "").replace(",", "+")


PLAIN = Mesh(4)
ON_NODES = Mesh(4, nodes="2,2")
OTHERS = [Mesh(4, ("mesh.cp=2",)), Mesh(4, ("mesh.tp=2",)), Mesh(2), Mesh(3), Mesh(4, ("mesh.pp=2", "mesh.vpp=2"))]
KINDS = ["while starting", "inside a step", "inside a write of the state", "near the end", "at any time"]


class Jobs:
    """Starts jobs that differ only in mesh and folder."""

    def __init__(self, arguments: argparse.Namespace, scratch: pathlib.Path):
        self._program = arguments.program
        self._mpirun = shlex.split(arguments.mpirun)
        self._nodes = arguments.nodes
        self._config = scratch / "job.yaml"
        source = scratch / "rollouts.jsonl"
        self._config.write_text(
            f"source: {{kind: jsonl, path: {source}}}\n"
            "batch: {global_batch: 16, epochs: 2, shuffle: true, mini_batches: 2}\n"
            "micro_batch: {max_tokens: 4096}\n"
            "exchange: {prefetch: 2}\n")
        draw = random.Random(7)
        with source.open("w", encoding="utf-8") as file:
            for number in range(SAMPLES):
                tokens = [draw.randrange(32000) for _ in range(draw.randrange(8, 600))]
                line = {"uid": f"q{number // 4}", "prompt_ids": tokens[:4], "response_ids": tokens[4:],
                        "reward": draw.random(), "advantages": [draw.random() for _ in tokens[4:]]}
                file.write(json.dumps(line) + "\n")

    def start(self, mesh: Mesh, dump: pathlib.Path, state: pathlib.Path | None) -> subprocess.Popen:
        job = [str(self._config)]
        for setting in mesh.settings:
            job += ["--set", setting]
        command = [self._program, "run", *job, "--dump", str(dump), "--progress", "off"]
        if state is not None:
            command += ["--state", str(state), "--resume"]
        launcher = [*self._mpirun, "-np", str(mesh.ranks)]
        if mesh.nodes:
            launcher = [self._nodes, str(len(mesh.nodes.split(","))), mesh.nodes, "--"]
        return subprocess.Popen([*launcher, *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def run_undisturbed(self, mesh: Mesh, dump: pathlib.Path) -> None:
        job = self.start(mesh, dump, None)
        _, output = job.communicate(timeout=DEADLINE)
        if job.returncode != 0:
            print(f"a job on {mesh.name} ends with status {job.returncode}:\n{output}", file=sys.stderr)
            sys.exit(2)


def ranks_of(job: subprocess.Popen) -> list[int]:
    """Returns the living processes below the launcher that run the program."""
    children = collections.defaultdict(list)
    names = {}
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            stat = pathlib.Path(entry.path, "stat").read_text(encoding="utf-8")
        except OSError:
            continue  # The process has ended in the meantime.
        name, rest = stat[stat.index("(") + 1:].rsplit(")", 1)
        state, parent = rest.split()[:2]
        names[int(entry.name)] = name if state != "Z" else ""
        children[int(parent)].append(int(entry.name))
    found, left = [], [job.pid]
    while left:
        pid = left.pop()
        left += children[pid]
        if names.get(pid) == "evenkeel":
            found.append(pid)
    return sorted(found)


def wait_for_end(job: subprocess.Popen) -> str:
    """Waits for the end of the job, and returns its output. After a rank was killed and all others have ended, Open MPI's
    launcher may keep waiting; then it is killed, too."""
    begin = with_ranks = time.monotonic()
    while True:
        try:
            return job.communicate(timeout=1)[1]
        except subprocess.TimeoutExpired:
            now = time.monotonic()
            if ranks_of(job):
                with_ranks = now
            if now - begin > DEADLINE:
                raise
            if now - with_ranks > PATIENCE:
                job.kill()


def next_step_in(state: pathlib.Path) -> int:
    try:
        return json.loads((state / "evenkeel-state.json").read_text(encoding="utf-8"))["next_step"]
    except FileNotFoundError:
        return 0


class Killer:
    """Waits for a moment of the given kind, and kills one rank."""

    def __init__(self, job: subprocess.Popen, mesh: Mesh, kind: str, state: pathlib.Path, draw: random.Random,
                 usual: float):
        self._job = job
        self._state = state
        self._draw = draw
        self._usual = usual
        self._start = time.monotonic()
        self._wait = {"while starting": self._starting, "inside a step": self._step,
                      "inside a write of the state": self._write, "near the end": self._end,
                      "at any time": self._any}[kind]
        self._only_writer = kind == "inside a write of the state"

    def kill(self) -> bool:
        """Returns whether a rank could be killed."""
        self._wait()
        ranks = ranks_of(self._job)
        if not ranks or self._job.poll() is not None:
            return False
        writer = ranks[0]  # the rank that writes the state
        try:
            os.kill(writer if self._only_writer else self._draw.choice(ranks), signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    def _until(self, condition) -> None:
        while self._job.poll() is None and not condition() and time.monotonic() - self._start < DEADLINE:
            time.sleep(POLL)

    def _starting(self) -> None:
        self._until(lambda: ranks_of(self._job))
        time.sleep(self._draw.uniform(0, self._usual / 3))

    def _step(self) -> None:
        first = next_step_in(self._state)
        self._until(lambda: next_step_in(self._state) > first + self._draw.randrange(3))
        time.sleep(self._draw.uniform(0, 0.03))

    def _write(self) -> None:
        first = next_step_in(self._state)
        self._until(lambda: next_step_in(self._state) > first + self._draw.randrange(3))
        while self._job.poll() is None and time.monotonic() - self._start < DEADLINE:
            if any(".tmp-" in name for name in os.listdir(self._state)):
                return

    def _end(self) -> None:
        self._until(lambda: next_step_in(self._state) >= STEPS - self._draw.randrange(3))

    def _any(self) -> None:
        time.sleep(self._draw.uniform(0, self._usual))


def relative_files(folder: pathlib.Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@dataclasses.dataclass
class Tally:
    rounds: int = 0
    kills: int = 0
    steps: int = 0
    lost: int = 0
    repeated: int = 0
    different: int = 0

    @property
    def is_clean(self) -> bool:
        return self.lost == self.repeated == self.different == 0


def compare(dump: pathlib.Path, makers: list[pathlib.Path], tally: Tally) -> None:
    """Compares each step with that of the undisturbed job on the mesh that made it last."""
    names = [f"step-{number:06}" for number in range(STEPS)]
    tally.repeated += len(relative_files(dump) - {"evenkeel-run.json"} -
                          {f"{name}/{file}" for name, maker in zip(names, makers)
                           for file in relative_files(maker / name)})
    for name, maker in zip(names, makers):
        tally.steps += 1
        for file in relative_files(maker / name):
            mine = dump / name / file
            if not mine.exists():
                tally.lost += 1
            elif not filecmp.cmp(mine, maker / name / file, shallow=False):
                tally.different += 1


def one_round(jobs: Jobs, folder: pathlib.Path, references: dict[Mesh, pathlib.Path], kind: str, mesh: Mesh,
              later: Mesh, draw: random.Random, usual: float, tally: Tally) -> None:
    dump, state = folder / "dump", folder / "state"
    makers = [references[mesh]] * STEPS
    kills = 1 + draw.randrange(3)
    tally.rounds += 1
    while True:
        first = next_step_in(state)
        makers[first:] = [references[mesh]] * (STEPS - first)
        job = jobs.start(mesh, dump, state)
        if kills > 0 and Killer(job, mesh, kind, state, draw, usual).kill():
            tally.kills += 1
        kills -= 1
        try:
            output = wait_for_end(job)
        except subprocess.TimeoutExpired:
            job.kill()
            print(f"a job ({kind}, {mesh.name}) hangs in {folder}", file=sys.stderr)
            sys.exit(1)
        if job.returncode == 0 and next_step_in(state) == STEPS:
            break
        if kills < -3:
            print(f"a job ({kind}, {mesh.name}) cannot be resumed in {folder}:\n{output}", file=sys.stderr)
            sys.exit(1)
        mesh, kind = later, "at any time" if kills > 0 else kind
    compare(dump, makers, tally)


def tables(tallies: dict[str, Tally]) -> str:
    lines = ["| killed | rounds | kills | steps compared | files lost | files too many | files different |",
             "|---|---|---|---|---|---|---|"]
    total = Tally()
    for name, t in tallies.items():
        lines.append(f"| {name} | {t.rounds} | {t.kills} | {t.steps} | {t.lost} | {t.repeated} | {t.different} |")
        for field in dataclasses.fields(Tally):
            setattr(total, field.name, getattr(total, field.name) + getattr(t, field.name))
    t = total
    lines.append(f"| all | {t.rounds} | {t.kills} | {t.steps} | {t.lost} | {t.repeated} | {t.different} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scratch")
    parser.add_argument("--nodes", default="")
    parser.add_argument("--mpirun", default="mpirun --oversubscribe")
    arguments = parser.parse_args()
    scratch = pathlib.Path(arguments.scratch or tempfile.mkdtemp(prefix="evenkeel-kill-"))
    scratch.mkdir(parents=True, exist_ok=True)
    jobs = Jobs(arguments, scratch)
    meshes = [PLAIN, *OTHERS[:max(1, arguments.rounds // 5)], *([ON_NODES] if arguments.nodes else [])]
    references = {mesh: scratch / f"undisturbed-{mesh.name}" for mesh in meshes}
    usual = 0.0
    for mesh, dump in references.items():
        begin = time.monotonic()
        jobs.run_undisturbed(mesh, dump)
        usual = max(usual, time.monotonic() - begin) if not mesh.nodes else usual
    others = [mesh for mesh in OTHERS if mesh in references]
    tallies: dict[str, Tally] = collections.defaultdict(Tally)
    for number in range(arguments.rounds):
        draw = random.Random(arguments.seed * 1000 + number)
        kind = KINDS[number % 5]
        mesh, later, name = PLAIN, PLAIN, kind
        if number // 5 % 5 == 1:
            later = others[number % len(others)]
            name += ", resumed on another mesh"
        elif number // 5 % 5 == 3 and arguments.nodes:
            mesh = later = ON_NODES
            name += ", on two nodes"
        folder = scratch / f"round-{number}"
        one_round(jobs, folder, references, kind, mesh, later, draw, usual, tallies[name])
        shutil.rmtree(folder)
    print(tables(dict(sorted(tallies.items()))))
    clean = all(tally.is_clean for tally in tallies.values())
    if clean and not arguments.scratch:
        shutil.rmtree(scratch)
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
