"""A step of the service over torch.distributed against one bare all_to_all_single of the same bytes. Start it as torchrun
starts processes:

    torchrun --nproc-per-node 4 python/benchmarks/service_exchange.py [MiB a rank] [rounds]

Prints medians over the rounds, which take turns, of the slowest rank; in shared memory, as ranks of one node have it, and in
messages alone. A step also gathers lengths, plans, packs and derives fields.
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


def slowest(act):
    """Seconds from the time when all ranks are there until the last has done it."""
    distributed.barrier()
    start = time.perf_counter()
    act()
    seconds = torch.tensor([time.perf_counter() - start], dtype=torch.float64)
    distributed.all_reduce(seconds, distributed.ReduceOp.MAX)
    return seconds.item()


def main():
    distributed.init_process_group("gloo")
    rank, size = distributed.get_rank(), distributed.get_world_size()
    count = max(size, (MIB << 20) // (LENGTH * ROW_BYTES))
    out = torch.zeros(count * LENGTH * ROW_BYTES, dtype=torch.uint8)
    into = torch.empty_like(out)
    if out.numel() % size:
        out, into = out[: -(out.numel() % size)], into[: -(into.numel() % size)]
    config = {"micro_batch": {"max_tokens": 4 * LENGTH}}
    services = {
        "shared memory": evenkeel.DataService(distributed.group.WORLD, config),
        "messages": evenkeel.DataService(distributed.group.WORLD, {**config, "exchange": {"path": "point-to-point"}}),
    }
    # Made once the service has set up the memory that ranks of a node share.
    samples = evenkeel.Samples(
        ids=np.arange(count) * size + rank, prompt_lengths=np.zeros(count, np.int64),
        response_lengths=np.full(count, LENGTH),
        token={"input_ids": np.arange(count * LENGTH), "hidden": np.ones((count * LENGTH, 64), np.float32)},
    )
    times = {name: [] for name in ("all_to_all_single", *services)}
    for turn in range(ROUNDS + 1):
        taken = {"all_to_all_single": slowest(lambda: distributed.all_to_all_single(into, out))}
        for name, service in services.items():
            taken[name] = slowest(lambda: service.step(samples))
        if turn:  # the first round makes memory and connections
            for name, seconds in taken.items():
                times[name].append(seconds)
    if rank:
        return
    print(f"{size} ranks, {out.numel() / 2**20:.0f} MiB each, {ROUNDS} rounds")
    for name, seconds in times.items():
        middle = statistics.median(seconds)
        ratio = statistics.median(a / b for a, b in zip(seconds, times["all_to_all_single"]))
        print(f"{name:20} {middle * 1e3:8.1f} ms   {ratio:5.2f} x all_to_all_single")


main()
