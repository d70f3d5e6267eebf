"""Compares a step of the service over torch.distributed with one bare all_to_all_single of the same bytes. Start it as torchrun
starts processes:

    torchrun --nproc_per_node 4 python/benchmarks/service_exchange.py [MiB per rank] [rounds]

Prints medians of the slowest rank over alternating rounds, in shared memory, as for ranks of one node, and with messages only.
A step also gathers lengths, plans, packs and derives fields. `placement: none` makes most samples change ranks. In the bare call,
each pair of ranks exchanges exactly the bytes that the step exchanges, including those that stay.
"""

import statistics
import sys
import time

import numpy as np
import torch
import torch.distributed as distributed

import evenkeel

MIB = int(sys.argv[1]) if len(sys.argv) > 1 else 64
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 7
LENGTH = 4096
ROW_BYTES = 8 + 256  # a token and a row of 64 floats


def measure_slowest(act):
    """Returns the seconds from the time when all ranks have arrived until the last one is done."""
    distributed.barrier()
    start = time.perf_counter()
    act()
    seconds = torch.tensor([time.perf_counter() - start], dtype=torch.float64)
    distributed.all_reduce(seconds, distributed.ReduceOp.MAX)
    return seconds.item()


def samples_of(rank, size):
    """Returns samples with lengths around LENGTH and a long tail, whose rows take almost MIB."""
    lengths = np.random.default_rng(rank).lognormal(np.log(LENGTH) - 0.5, 1, 1 << 16).clip(64, 8 * LENGTH).astype(np.int64)
    count = int(np.searchsorted(lengths.cumsum(), (MIB << 20) // ROW_BYTES))
    lengths = lengths[:count]
    tokens = int(lengths.sum())
    return evenkeel.Samples(
        ids=np.arange(count) * size + rank, prompt_lengths=np.zeros(count, np.int64), response_lengths=lengths,
        token={"input_ids": np.arange(tokens), "hidden": np.ones((tokens, 64), np.float32)},
    )


def bytes_from(step, size):
    """Returns the bytes that this rank receives from each rank."""
    sizes = np.zeros(size, np.int64)
    for micro_batch in step.micro_batches:
        ids, lengths = micro_batch.samples, micro_batch.response_lengths
        np.add.at(sizes, ids[ids >= 0] % size, lengths[ids >= 0] * ROW_BYTES)
    return sizes.tolist()


def main():
    distributed.init_process_group("gloo")
    rank, size = distributed.get_rank(), distributed.get_world_size()
    config = {"micro_batch": {"max_tokens": 8 * LENGTH}, "balance": {"placement": "none"}}
    services = {
        "shared memory": evenkeel.DataService(distributed.group.WORLD, config),
        "messages": evenkeel.DataService(distributed.group.WORLD, {**config, "exchange": {"path": "point-to-point"}}),
    }
    # Created once the service has set up the shared memory of the ranks of a node.
    samples = samples_of(rank, size)
    gets = bytes_from(services["messages"].step(samples), size)
    table = [None] * size
    distributed.all_gather_object(table, gets)
    gives = [row[rank] for row in table]
    out, into = torch.ones(sum(gives), dtype=torch.uint8), torch.ones(sum(gets), dtype=torch.uint8)
    times = {name: [] for name in ("all_to_all_single", *services)}
    for turn in range(ROUNDS + 1):
        taken = {"all_to_all_single": measure_slowest(lambda: distributed.all_to_all_single(into, out, gets, gives))}
        for name, service in services.items():
            taken[name] = measure_slowest(lambda: service.step(samples))
        if turn:  # the first round creates memory and connections
            for name, seconds in taken.items():
                times[name].append(seconds)
    if rank:
        return
    stay = sum(row[r] for r, row in enumerate(table)) / sum(map(sum, table))
    print(f"{size} ranks, {sum(gives) / 2**20:.0f} MiB each, {stay:.0%} of the bytes stay where they are, {ROUNDS} rounds")
    for name, seconds in times.items():
        middle = statistics.median(seconds)
        ratio = statistics.median(a / b for a, b in zip(seconds, times["all_to_all_single"]))
        print(f"{name:20} {middle * 1e3:8.1f} ms   {ratio:5.2f} x all_to_all_single")


main()
