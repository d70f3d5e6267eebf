"""Delivered tensors are in memory that the program supplied. If the allocator fails on one rank, all ranks raise the error."""

import gc
import weakref

import numpy as np
import torch

import evenkeel
from jobs import group, report_result

blocks = {}
fails = False


def allocate(nbytes):
    if fails:
        raise ValueError("no memory of that kind is left")
    block = np.empty(nbytes, np.uint8)
    blocks[block.ctypes.data] = nbytes
    weakref.finalize(block, blocks.pop, block.ctypes.data)
    return torch.from_numpy(block)


def is_ours(rows):
    address = torch.as_tensor(rows).data_ptr()
    return any(first <= address < first + nbytes for first, nbytes in blocks.items())


def error_of(act):
    try:
        act()
    except evenkeel.Error as error:
        return [type(error).__name__, str(error), error.rank]
    return "nothing was raised"


def use(allocate):
    """Uses two blocks of that memory, then Evenkeel's own memory again."""
    evenkeel.memory.set_allocator(allocate)
    try:
        kept = [evenkeel.Samples(ids=[0], prompt_lengths=[1], response_lengths=[1], token={"x": np.arange(2)}) for _ in range(2)]
        return sum(map(len, kept))
    finally:
        evenkeel.memory.set_allocator(None)


one = np.empty(1 << 12, np.uint8)
results = {"too small": error_of(lambda: use(lambda nbytes: np.empty(nbytes // 2, np.uint8))),
        "in steps": error_of(lambda: use(lambda nbytes: np.empty(2 * nbytes, np.uint8)[::2])),
        "backwards": error_of(lambda: use(lambda nbytes: np.empty(nbytes, np.uint8)[::-1])),
        "twice": error_of(lambda: use(lambda nbytes: one)),
        "read-only": error_of(lambda: use(lambda nbytes: np.frombuffer(bytes(nbytes), np.uint8))),
        "no buffer": error_of(lambda: evenkeel.memory.set_allocator(lambda nbytes: torch.empty(nbytes, device="meta")))}
evenkeel.memory.set_allocator(allocate)
over = group()
service = evenkeel.DataService(over, {"micro_batch": {"max_tokens": 64}, "pack": {"align_lcm": 4}})


def samples():
    lengths = np.array([5, 7, 9])
    return evenkeel.Samples(
        ids=np.arange(3) + 3 * service.rank, prompt_lengths=[2, 2, 2], response_lengths=lengths - 2,
        token={"input_ids": torch.arange(21) + 100 * service.rank})


step = service.step(samples())
def packed(part):
    """Returns the tensors of packed rows, without offsets and numbers, which are not in the program's memory."""
    return [rows for name, rows in part.tensors.items() if name not in ("cu_seqlens", "cu_seqlens_padded", "max_seqlen")]


tensors = [rows for part in step for rows in packed(part)]
results["delivered"] = len(tensors) > 0 and all(is_ours(rows) for rows in tensors)
for part in step.micro_batches:
    part.put("back", part["input_ids"], kind="token")
results["collected"] = is_ours(service.collect(step)["back"])
results["kept"] = len(blocks) > 0
more = samples()
fails = service.rank == service.size - 1
results["fails"] = error_of(lambda: service.step(more))  # noqa: F821
fails = False
again = service.step(more)
first = next(part for part in again.micro_batches if not part.empty)
results["works again"] = again.num_samples == 3 * service.size
nested = first.nested("input_ids")
results["nested"] = [len(rows) for rows in nested.unbind()] == (first.prompt_lengths + first.response_lengths).tolist()
results["moved"] = torch.equal(torch.as_tensor(first.to("cpu")["input_ids"]), torch.as_tensor(first["input_ids"]))
try:
    shared = evenkeel.DataService(over, {"prefix": {"share": True}, "micro_batch": {"max_tokens": 64}}).step(samples())
    next(part for part in shared.micro_batches if not part.empty).nested("input_ids")
except evenkeel.InputError as error:
    results["segments"] = str(error)
evenkeel.memory.set_allocator(None)
theirs = [packed(part) for part in service.step(more)]
results["released"] = not any(is_ours(rows) for part in theirs for rows in part)
del step, tensors, part, more, again, first, nested, theirs, shared
gc.collect()
results["left"] = len(blocks)
report_result(service.rank, results=results)
