"""Memory of the program's own for all that it is handed: pinned, for fast copies to a device, or an arena.

    evenkeel.memory.supply(evenkeel.memory.pinned)
    for step in evenkeel.DataService(group, "job.yaml"):
        for micro_batch in step.micro_batches:
            tensors = micro_batch.to("cuda", non_blocking=True)
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from evenkeel import _arrays

if TYPE_CHECKING:
    from evenkeel import _service
else:
    from evenkeel._ranks import extension as _service

__all__ = ["pinned", "supply"]


def supply(allocate: Callable[[int], Any] | None) -> None:
    """From now on ``allocate(nbytes)`` is asked for the memory of all samples, packed micro-batches and results of this
    process: it returns a writable, contiguous array or tensor of the CPU with as many bytes, uint8, apart from those that are
    in use, and Evenkeel lets go of it with the last who looks at it. It should keep what comes back, as torch's allocators do: each step asks for as many as
    the one before. Threads that make steps call it. What it raises, all ranks raise. None: Evenkeel's own memory again.

    What ranks of a node have in common with ``exchange.tp_copies: shared`` lies in shared memory all the same; out of other
    memory, samples reach ranks of the node with one more copy. Call it before the first service. Raises what a first,
    small request raises.
    """
    if allocate is None:
        _service.set_memory(None)
        return
    _block(allocate, 64)
    _service.set_memory(functools.partial(_block, allocate))


def pinned(nbytes: int) -> Any:
    """Page-locked memory, out of torch's cache of it. Needs torch with a device."""
    import torch

    return torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)


def _block(allocate: Callable[[int], Any], nbytes: int) -> Any:
    return _arrays.Rows(allocate(nbytes), "memory").array
