"""Starts jobs of several processes for tests: the same script under mpirun, and as processes of torch.distributed that are
started as torchrun starts them. Each rank prints one line of JSON; run() returns them by rank."""

import json
import os
import pathlib
import random
import socket
import subprocess
import sys

SCRIPTS = pathlib.Path(__file__).parent
TIMEOUT = 120


def run(script, ranks, *, over, arguments=()):
    """What the ranks of a script in this folder printed."""
    done = processes([sys.executable, str(SCRIPTS / script), *map(str, arguments)], ranks, over=over)
    lines = [line for process in done for line in process.stdout.splitlines() if line.startswith("{")]
    told = sorted((json.loads(line) for line in lines), key=lambda line: line["rank"])
    assert [line["rank"] for line in told] == list(range(ranks))
    return told


def processes(command, ranks, *, over, timeout=TIMEOUT):
    """A command on so many ranks, ``over`` "mpi" or "torch", run to a good end."""
    if over == "mpi":
        launcher = ["mpirun", "--oversubscribe", "--allow-run-as-root", "-n", str(ranks)]
        done = [subprocess.run(launcher + command, capture_output=True, text=True, timeout=timeout)]
    else:
        done = _run_by_torch(command, ranks, timeout)
    for process in done:
        assert process.returncode == 0, process.stdout + process.stderr
    return done


def _free_port():
    """One that the system gives to nobody who asks for any, so that it stays free until the job listens."""
    while True:
        port = random.randrange(15_000, 32_000)
        with socket.socket() as trial:
            try:
                trial.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def _run_by_torch(command, ranks, timeout):
    port = _free_port()
    job = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    started = [
        subprocess.Popen(command, env={**os.environ, **job, "RANK": str(rank), "LOCAL_RANK": str(rank)},
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
    """In a script: the group it was started over, and how to end it."""
    if "RANK" not in os.environ:
        from mpi4py import MPI

        return MPI.COMM_WORLD
    import torch.distributed as distributed

    distributed.init_process_group("gloo")
    return distributed.group.WORLD


def tell(rank, **what):
    os.write(1, (json.dumps({"rank": rank, **what}) + "\n").encode())  # at once, so that ranks do not mix
