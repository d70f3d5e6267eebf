"""Measures the time that a loop in Python adds to a step of 64 micro-batches: everything that a trainer requests of each
micro-batch, compared with the time that C++ takes to make the step. One rank:

    mpirun -n 1 python3 python/benchmarks/service_loop.py [tokens per micro-batch] [rounds]
"""

import statistics
import sys
import time

import numpy as np
import torch  # noqa: F401  the service then returns tensors
from mpi4py import MPI

import evenkeel

TOKENS = int(sys.argv[1]) if len(sys.argv) > 1 else 16384
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 31
MICRO_BATCHES = 64


def main():
    config = {"micro_batch": {"max_tokens": TOKENS, "min_count": MICRO_BATCHES}}
    service = evenkeel.DataService(MPI.COMM_WORLD, config, tensors="torch")
    lengths = np.full(4 * MICRO_BATCHES, TOKENS // 4)
    tokens = int(lengths.sum())
    samples = evenkeel.Samples(
        ids=np.arange(len(lengths)), prompt_lengths=np.zeros_like(lengths), response_lengths=lengths,
        token={"input_ids": np.arange(tokens), "advantages": np.ones(tokens, np.float32)},
    )
    made, looped = [], []
    for turn in range(ROUNDS + 1):
        start = time.perf_counter()
        step = service.step(samples)
        taken = sum(step.seconds.values())
        for micro_batch in step.micro_batches:
            micro_batch.tensors["input_ids"], micro_batch.tensors["labels"], micro_batch.tensors["position_ids"]
            micro_batch.packed_seq_params(), micro_batch.scale, micro_batch.empty
        whole = time.perf_counter() - start
        if turn:
            made.append(taken)
            looped.append(whole - taken)
        assert len(step.micro_batches) == MICRO_BATCHES
    share = statistics.median(loop / make for loop, make in zip(looped, made))
    print(f"{MICRO_BATCHES} micro-batches of {TOKENS} tokens: made in {statistics.median(made) * 1e3:.2f} ms, "
          f"the loop adds {statistics.median(looped) * 1e3:.2f} ms, {share:.1%}")


main()
