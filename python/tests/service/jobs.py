"""Starts jobs of several processes for tests: the same script under mpirun, or as processes of torch.distributed, started as by
torchrun. Each rank reports a result with report_result(); run() returns the results by rank."""

import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile

SCRIPTS = pathlib.Path(__file__).parent
TIMEOUT = 120
RESULTS_IN = "EVENKEEL_TESTS_RESULTS_IN"


def run(script, ranks, *, over, arguments=()):
    """Runs a script of this folder, and returns the results of its ranks."""
    command = [sys.executable, str(SCRIPTS / script), *map(str, arguments)]
    with tempfile.TemporaryDirectory() as folder:
        processes(command, ranks, over=over, environment={RESULTS_IN: folder})
        results = [json.loads(path.read_text()) for path in pathlib.Path(folder).iterdir()]
    results.sort(key=lambda line: line["rank"])
    assert [line["rank"] for line in results] == list(range(ranks))
    return results


def ends(script, ranks, *, over, arguments=()):
    """Runs a script of this folder whose processes may fail, and returns the processes."""
    command = [sys.executable, str(SCRIPTS / script), *map(str, arguments)]
    with tempfile.TemporaryDirectory() as folder:
        return _run(command, ranks, over, TIMEOUT, {**os.environ, RESULTS_IN: folder})


def processes(command, ranks, *, over, timeout=TIMEOUT, environment=None):
    """Runs a command on this number of ranks, ``over`` "mpi" or "torch", and requires that it succeeds."""
    done = _run(command, ranks, over, timeout, {**os.environ, **(environment or {})})
    for process in done:
        assert process.returncode == 0, process.stdout + process.stderr
    return done


def _run(command, ranks, over, timeout, environment):
    if over == "mpi":
        launcher = ["mpirun", "--oversubscribe", "--allow-run-as-root", "-n", str(ranks)]
        return [subprocess.run(launcher + command, env=environment, capture_output=True, text=True, timeout=timeout)]
    return _run_by_torch(command, ranks, timeout, environment)


def free_port():
    """Returns a port that the system does not assign automatically, so it stays free until the job listens."""
    while True:
        port = random.randrange(15_000, 32_000)
        with socket.socket() as trial:
            try:
                trial.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def _run_by_torch(command, ranks, timeout, environment):
    port = free_port()
    job = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    started = [
        subprocess.Popen(command, env={**environment, **job, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for rank in range(ranks)
    ]
    done = []
    try:
        for process in started:
            out, err = process.communicate(timeout=timeout)
            done.append(subprocess.CompletedProcess(command, process.returncode, out, err))
    finally:
        for process in started:
            process.kill()
    return done


def group():
    """Returns, inside a script, the group over which it was started, and a function that ends the group."""
    if "RANK" not in os.environ:
        from mpi4py import MPI

        return MPI.COMM_WORLD
    import torch.distributed as distributed

    distributed.init_process_group("gloo")
    return distributed.group.WORLD


def report_result(rank, **what):
    """Writes the result that run() returns for this rank. Each rank has its own file, because mpirun mixes the output of ranks.
    """
    pathlib.Path(os.environ[RESULTS_IN], f"{rank}.json").write_text(json.dumps({"rank": rank, **what}))
