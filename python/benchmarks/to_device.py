"""Measures how long it takes to move the tensors of a micro-batch to a device: in one copy (MicroBatch.to) and one by one, in turn,
from pinned and from pageable memory. One process, over mpi4py or else torch.distributed:

    python3 python/benchmarks/to_device.py [device] [repeats]

The device is a GPU if there is one, else ``meta``: then nothing is copied, and only the calls are measured.
"""

import statistics
import sys
import time

import numpy as np
import torch

import evenkeel
import evenkeel.memory

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "cuda" if torch.cuda.is_available() else "meta"
REPEATS = int(sys.argv[2]) if len(sys.argv) > 2 else 101


def finished():
    if torch.device(DEVICE).type == "cuda":
        torch.cuda.synchronize()


def one_by_one(micro_batch):
    """Moves tensors as without an arena: one copy per tensor."""
    def moved(value):
        if isinstance(value, tuple):
            return tuple(moved(part) for part in value)
        return value.to(DEVICE, non_blocking=True) if torch.is_tensor(value) else value

    return {name: moved(value) for name, value in micro_batch.tensors.items()}


def at_once(micro_batch):
    return micro_batch.to(DEVICE, non_blocking=True)


def seconds(move, micro_batch):
    """Returns the seconds until the program continues, those until everything has arrived, and the tensors."""
    finished()
    start = time.perf_counter()
    tensors = move(micro_batch)
    called = time.perf_counter()
    finished()
    return called - start, time.perf_counter() - start, tensors


def copies_of(tensors):
    parts = [part for value in tensors.values() for part in (value if isinstance(value, tuple) else (value,))]
    storages = [part.untyped_storage() if hasattr(part, "untyped_storage") else part.storage()
                for part in parts if torch.is_tensor(part)]
    if torch.device(DEVICE).type == "meta":
        return "no"
    sizes = {storage.data_ptr(): storage.nbytes() for storage in storages}
    return f"{len(sizes)} of {sum(sizes.values()) / 2**20:.2f} MiB"


def micro_batch_of(service, tokens, patches):
    """Returns a step and its micro-batch of ``tokens`` tokens in samples of 1024, each with ``patches`` patches of 1176 half floats."""
    count = tokens // 1024
    fields = {"token": {"input_ids": torch.arange(tokens), "old_log_probs": torch.zeros(tokens)},
              "sample": {"rewards": torch.zeros(count)}}
    if patches:
        fields["rows"] = {"patches": [torch.zeros(patches, 1176, dtype=torch.float16) for _ in range(count)]}
    samples = evenkeel.Samples(ids=np.arange(count), prompt_lengths=[256] * count, response_lengths=[768] * count, **fields)
    step = service.step(samples)
    return step, step.micro_batches[0]


def equal(one, other):
    if isinstance(one, tuple):
        return all(map(equal, one, other))
    if not torch.is_tensor(one):
        return one == other
    return one.dtype == other.dtype and one.stride() == other.stride() and (one.is_meta or torch.equal(one, other))


def make_group_of_one():
    """Returns a group with only this process."""
    try:
        from mpi4py import MPI

        return MPI.COMM_SELF
    except (ImportError, RuntimeError):  # mpi4py or its library is not installed
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        return torch.distributed.group.WORLD


def main():
    torch.set_num_threads(1)
    group = make_group_of_one()
    memories = [("pageable", None)]
    if torch.device(DEVICE).type == "cuda":
        print(torch.cuda.get_device_name())
        memories.append(("pinned", evenkeel.memory.allocate_pinned))
    for memory, allocate in memories:
        evenkeel.memory.set_allocator(allocate)
        for tokens, patches in ((4096, 0), (16384, 0), (65536, 0), (16384, 1024)):
            service = evenkeel.DataService(group, {"micro_batch": {"max_tokens": tokens}}, tensors="torch")
            step, micro_batch = micro_batch_of(service, tokens, patches)
            took = {one_by_one: [], at_once: []}
            tensors = {}
            for _ in range(REPEATS):
                for move, times in took.items():
                    called, there, tensors[move] = seconds(move, micro_batch)
                    times.append((called, there))
            assert all(equal(tensors[at_once][name], value) for name, value in tensors[one_by_one].items())
            print(f"{memory}, {tokens} tokens{f', {patches} patches a sample' if patches else ''}:")
            for move, times in took.items():
                called, there = (statistics.median(t[i] for t in times[3:]) * 1e6 for i in (0, 1))
                print(f"  {move.__name__}: {copies_of(tensors[move])} copies, the program goes on after {called:.0f} us,"
                      f" all is there after {there:.0f} us")
            del step, micro_batch, tensors


main()
