"""Measures how long after its last sample was acknowledged a step is delivered to trainers, on the slowest rank, compared with the
same step from a file. A separate process sends the samples while all ranks wait for the step:

    mpirun -n 4 python3 python/benchmarks/arriving_step.py PROGRAM [steps] [samples per step] [tokens per sample]

PROGRAM is evenkeel, which is started as a buffer in memory. A sample has 4 bytes per token.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import evenkeel

PROGRAM = sys.argv[1]
STEPS = int(sys.argv[2]) if len(sys.argv) > 2 else 300
SAMPLES = int(sys.argv[3]) if len(sys.argv) > 3 else 64
TOKENS = int(sys.argv[4]) if len(sys.argv) > 4 else 4096


def rollouts(step):
    """Returns the samples of a step, each in a separate group."""
    return [{"uid": f"{step}.{index}", "index": 0, "version": step, "prompt_ids": [1],
             "response_ids": [10_000 + (step + index + token) % 90_000 for token in range(TOKENS - 1)], "reward": 1.0}
            for index in range(SAMPLES)]


def produce(url):
    """Sends all samples of a step but one, and the last one when a line requests it. Prints when the last one was
    acknowledged."""
    producer = evenkeel.Producer(url)
    for step in range(STEPS):
        *most, last = rollouts(step)
        for sample in most:
            producer.put(sample)
        print("ready", flush=True)
        sys.stdin.readline()
        time.sleep(0.02)  # time in which the ranks start to wait
        producer.put(last)
        print(time.monotonic(), flush=True)
        sys.stdin.readline()  # until the ranks have the step, nothing else may use their cores


def config(path, **more):
    return {"source": {"path": path, **more}, "batch": {"global_batch": SAMPLES}, "micro_batch": {"max_tokens": 8 * TOKENS},
            "exchange": {"prefetch": 0}}


def from_file(ranks, folder):
    """Returns the seconds that each step takes from a file, on the slowest rank."""
    path = str(pathlib.Path(folder) / "rollouts.jsonl")
    if ranks.rank == 0:
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(sample) + "\n" for step in range(STEPS) for sample in rollouts(step))
    ranks.Barrier()
    steps, took = iter(evenkeel.DataService(ranks, config(path, kind="jsonl"))), []
    for _ in range(STEPS):
        ranks.Barrier()
        start = time.monotonic()
        step = next(steps)
        took.append(max(ranks.allgather(time.monotonic() - start)))
        del step
    return took


def from_stream(ranks, url, producer):
    """Returns the seconds from the acknowledgment of each step's last sample until the slowest rank has the step."""
    steps, took = iter(evenkeel.DataService(ranks, config(url, kind="stream") | {"stream": {"patience": 60}})), []
    for _ in range(STEPS):
        if producer:
            producer.stdout.readline()
        ranks.Barrier()
        if producer:
            print("go", file=producer.stdin, flush=True)
        step = next(steps)
        given = max(ranks.allgather(time.monotonic()))
        if producer:
            took.append(given - float(producer.stdout.readline()))
            print("next", file=producer.stdin, flush=True)
        del step
    return took


def show(name, took):
    ordered = sorted(took[5:])
    print(f"| {name} | {statistics.median(ordered) * 1e3:.1f} | {ordered[len(ordered) * 99 // 100] * 1e3:.1f} "
          f"| {ordered[-1] * 1e3:.1f} |")


def start_process(*command):
    """Starts a process that is not a rank, with lines to read and to write."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "PMIX_"))}
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def main():
    from mpi4py import MPI

    ranks, folder, url, producer = MPI.COMM_WORLD, None, None, None
    if ranks.rank == 0:
        folder = tempfile.TemporaryDirectory()
        buffer = start_process(PROGRAM, "buffer", "--store", "memory", "--listen", "127.0.0.1:0", "--group-size", "1")
        url = next(line.split()[-1] for line in buffer.stdout if line.startswith("Listening"))
    url, name = ranks.bcast((url, folder and folder.name))
    file = from_file(ranks, name)
    if ranks.rank == 0:
        producer = start_process(sys.executable, __file__, PROGRAM, str(STEPS), str(SAMPLES), str(TOKENS), url)
    stream = from_stream(ranks, url, producer)
    if producer:
        producer.wait()
        buffer.terminate()
        print(f"{SAMPLES} samples of {TOKENS * 4 / 1024:.0f} KiB a step, {ranks.size} ranks, {STEPS - 5} steps, the slowest "
              "rank, ms:\n\n| a step | median | 99 of 100 | worst |\n|---|---:|---:|---:|")
        show("from a file", file)
        show("after its last sample was acknowledged", stream)


if len(sys.argv) > 5:
    produce(sys.argv[5])
else:
    main()
