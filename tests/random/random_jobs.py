#!/usr/bin/env python3
"""Runs random jobs, and compares what their ranks received with the samples in their sources.

    random_jobs.py PROGRAM [--first SEED] [--jobs N] [--mpirun COMMAND] [--keep FOLDER] [--at-once N]

Each seed is a job: a configuration over nearly all keys, and files of samples that this program writes. It also reads the
job's dumps and results without using Evenkeel. Incompatible settings must be refused with one line and status 2, before
anything is delivered. Exit status: 0 if all checks pass and few jobs are refused, else 1.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import tensors
from again import job_of_dump
from checks import PassChecks, check_job
from draws import draw_job
from dumps import Wrong, require
from jobs import Job
from plans import check_plan

DEADLINE = 120  # seconds after which a job counts as hanging
MOST_REFUSED = 0.25


def write_sources(job: Job, folder: pathlib.Path) -> None:
    for source in job.sources:
        own = job.config["sources"][source.name] if source.name else job.config["source"]
        path = folder / own["path"]
        if source.kind == "jsonl":
            tensors.write_jsonl(path, source.samples, job.fields)
        elif source.kind == "lengths":
            tensors.write_lengths(path, source.samples)
        elif source.kind == "megatron":
            tensors.write_megatron(path, source.samples)
        else:
            found, metadata = tensors.ragged_tensors(source.samples, job.fields)
            if source.is_padded:
                found, metadata = tensors.padded_tensors(source.samples, job.fields), {}
            tensors.write_safetensors(path, found, metadata)


def require_refusal(job: Job, done: subprocess.CompletedProcess, folder: pathlib.Path) -> str:
    """Returns the reason of a refusal. Requires that the job was refused properly."""
    errors = [line for line in done.stderr.splitlines() if line.startswith("evenkeel: error:")]
    require(done.returncode == 2 and len(errors) == 1, "ends with status", done.returncode, "and says:", *errors or
            done.stderr.splitlines()[:3])
    require(not list(folder.glob("dump/**/*.safetensors")), "is refused after something was delivered:", errors[0])
    return errors[0].removeprefix("evenkeel: error: ")


class Jobs:
    def __init__(self, arguments: argparse.Namespace, scratch: pathlib.Path):
        self._program = os.path.abspath(arguments.program)
        self._mpirun = shlex.split(arguments.mpirun)
        self._scratch = scratch

    def run(self, seed: int) -> str | None:
        """Returns the error of a refused job, or None. Throws Wrong, and keeps the job's folder, if a check fails."""
        job = draw_job(seed)
        folder = self._scratch / f"job-{seed}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "job.yaml").write_text(json.dumps(job.config, indent=1), encoding="utf-8")
        write_sources(job, folder)
        done = self._run(job, folder, "dump", ["--state", "state", "--steps", "1"] if job.is_resumed else [])
        if job.is_resumed and done.returncode == 0:
            done = self._run(job, folder, "dump", ["--state", "state", "--resume"])
        require(done.returncode != 0 or not job.must_be_refused, "runs to its end, but must be refused")
        if done.returncode != 0:
            refusal = require_refusal(job, done, folder)
            shutil.rmtree(folder)
            return refusal
        passes: list[PassChecks] = check_job(job, folder, "dump")
        check_plan(self._program, job, passes, folder)
        again = job_of_dump(job, passes[0], 1 + seed % 2)
        if again is not None and seed % 3 == 0:
            (folder / "again.yaml").write_text(json.dumps(again.config), encoding="utf-8")
            done = self._run(again, folder, "again", [])
            require(done.returncode == 0, "its dump cannot be read:", *done.stderr.splitlines()[:1])
            check_job(again, folder, "again")
        shutil.rmtree(folder)
        return None

    def _run(self, job: Job, folder: pathlib.Path, dump: str, more: list[str]) -> subprocess.CompletedProcess:
        config = "job.yaml" if dump == "dump" else dump + ".yaml"
        words = ["run", config, "--dump", dump, "--progress", "off", "--log-level", "error", *more]
        words += ["--results", "results"] if job.results else []
        words += ["--profiles", ",".join(job.profiles)] if job.profiles else []
        return subprocess.run([*self._mpirun, "-np", str(job.ranks), self._program, *words], cwd=folder, capture_output=True,
                              text=True, timeout=DEADLINE, check=False)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--mpirun", default="mpirun --oversubscribe")
    parser.add_argument("--keep", help="folder that keeps the files of jobs that fail a check")
    parser.add_argument("--at-once", type=int, default=1)
    arguments = parser.parse_args()
    scratch = pathlib.Path(arguments.keep or tempfile.mkdtemp(prefix="evenkeel-random-")).absolute()
    jobs = Jobs(arguments, scratch)
    wrong, refusals = 0, collections.Counter()

    def run_job(seed: int) -> tuple[int, str | None, str | None]:
        try:
            return seed, jobs.run(seed), None
        except (Wrong, subprocess.TimeoutExpired) as error:
            return seed, None, str(error)

    with concurrent.futures.ThreadPoolExecutor(arguments.at_once) as pool:
        for seed, refusal, error in pool.map(run_job, range(arguments.first, arguments.first + arguments.jobs)):
            if refusal is not None:
                refusals[re.sub(r"\d+", "N", refusal)] += 1
            if error is not None:
                wrong += 1
                print(f"job {seed} in {scratch}/job-{seed}: {error}", flush=True)
    refused = sum(refusals.values())
    print(f"{arguments.jobs} jobs: {wrong} wrong, {refused} refused")
    for refusal, count in refusals.most_common():
        print(f"  {count} x {refusal}")
    if not wrong and not arguments.keep:
        shutil.rmtree(scratch)
    return 1 if wrong or refused > MOST_REFUSED * arguments.jobs else 0


if __name__ == "__main__":
    sys.exit(main())
