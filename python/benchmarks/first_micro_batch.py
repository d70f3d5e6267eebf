"""Measures how long a trainer waits from next(it) to the first micro-batch on its device (a GPU if there is one, else the CPU), and
what is copied on the way. Two ranks, each with its own core:

    mpirun -n 2 python3 python/benchmarks/first_micro_batch.py [tokens per micro-batch] [samples per step] [steps]
"""

import statistics
import sys
import time

import torch
from mpi4py import MPI

import evenkeel
import evenkeel.memory

TOKENS = int(sys.argv[1]) if len(sys.argv) > 1 else 16384
SAMPLES = int(sys.argv[2]) if len(sys.argv) > 2 else 256
STEPS = int(sys.argv[3]) if len(sys.argv) > 3 else 21
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def on_device(micro_batch):
    tensors = micro_batch.to(DEVICE, non_blocking=True)
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    return tensors


def count_copies(micro_batch, tensors):
    """Returns the number of copies to the device, their bytes, and the number of tensors copied; tensors that use the packed memory
    itself are not counted."""
    moved = [tensor for name, tensor in tensors.items()
             if torch.is_tensor(tensor) and tensor.data_ptr() != micro_batch[name].data_ptr()]
    blocks = {storage.data_ptr(): storage.nbytes() for storage in map(storage_of, moved)}
    return len(blocks), sum(blocks.values()), len(moved)


def storage_of(tensor):
    return tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()


def measure_waits(prefetch, computing):
    """Returns seconds from next(it) to the first micro-batch of each step but the first two, on the slowest rank, and the
    copies of the last step."""
    service = evenkeel.DataService(MPI.COMM_WORLD, {
        "source": {"kind": "synthetic", "samples": SAMPLES * STEPS}, "batch": {"global_batch": SAMPLES},
        "micro_batch": {"max_tokens": TOKENS}, "exchange": {"prefetch": prefetch},
    }, tensors="torch")
    steps, took, copies = iter(service), [], (0, 0, 0)
    for _ in range(len(service)):
        MPI.COMM_WORLD.Barrier()
        start = time.perf_counter()
        step = next(steps)
        tensors = on_device(step.micro_batches[0])
        took.append(MPI.COMM_WORLD.allreduce(time.perf_counter() - start, MPI.MAX))
        copies = count_copies(step.micro_batches[0], tensors)
        del step, tensors
        time.sleep(computing)  # on a device, which leaves the core to the service
    return took[2:], copies


def main():
    torch.set_num_threads(1)
    if DEVICE == "cuda":
        evenkeel.memory.set_allocator(evenkeel.memory.allocate_pinned)
    alone, _ = measure_waits(0, 0.0)
    computing = 1.2 * statistics.median(alone)
    ahead, (copies, size, tensors) = measure_waits(2, computing)
    if MPI.COMM_WORLD.rank:
        return
    print(f"{SAMPLES} samples a step, micro-batches of {TOKENS} tokens, {DEVICE}, {STEPS - 2} steps, the slowest rank:")
    for name, took in (("made when it is asked for", alone), (f"made ahead, {computing * 1e3:.1f} ms of computing a step", ahead)):
        print(f"  {name}: {statistics.median(took) * 1e3:.2f} ms (median), {max(took) * 1e3:.2f} ms (worst)")
    print(f"  copied to the device: {tensors} tensors in {copies} copies, {size / 1024:.0f} KiB a micro-batch")


main()
