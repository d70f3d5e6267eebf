"""Lets the program supply the memory of all tensors it gets: pinned, for fast copies to a device, or an arena.

    evenkeel.memory.set_allocator(evenkeel.memory.allocate_pinned)
    for step in evenkeel.DataService(group, "job.yaml"):
        for micro_batch in step.micro_batches:
            tensors = micro_batch.to("cuda", non_blocking=True)
"""

from __future__ import annotations

import atexit
import bisect
import ctypes
import threading
from collections.abc import Callable
from typing import Any

from evenkeel import _arrays, _c
from evenkeel import _prototypes as c
from evenkeel._c import service as lib
from evenkeel._text import counted

__all__ = ["allocate_pinned", "set_allocator"]


def set_allocator(allocate: Callable[[int], Any] | None) -> None:
    """Calls ``allocate(nbytes)`` for the memory of all samples, packed micro-batches and results of this process.

    ``allocate`` returns a writable, contiguous array or tensor of uint8 on the CPU, with ``nbytes`` bytes that nothing else uses.
    Evenkeel releases it when no array views it any more. ``allocate`` should reuse released memory, as torch's allocators do, since
    each step needs about as much as the one before. Threads that make steps call it, too. If it raises, all ranks raise. None
    restores Evenkeel's own memory.

    With ``exchange.tp_copies: shared``, tensors that ranks of a node share stay in shared memory. Samples in supplied memory
    reach other ranks of the node with one more copy. Call this before creating the first service. Raises whatever ``allocate``
    raises for a first, small request.
    """
    if allocate is None:
        lib.evenkeel_set_allocator(c.evenkeel_allocate(), c.evenkeel_deallocate(), None)
        return
    _arrays.Rows(allocate(64), "memory")
    blocks = _Blocks(allocate)
    _kept.append(blocks)  # the library calls its functions as long as it has blocks
    lib.evenkeel_set_allocator(blocks.allocate, blocks.deallocate, None)


def allocate_pinned(nbytes: int) -> Any:
    """Returns page-locked memory from torch's cache. Needs torch with a device."""
    import torch

    return torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)


_kept: list[_Blocks] = []
atexit.register(lambda: set_allocator(None) if _kept else None)  # while functions can still be called


class _Blocks:
    """Blocks that a callable supplies, which are kept until the library returns them. Any thread may request one."""

    def __init__(self, supplier: Callable[[int], Any]) -> None:
        self._supplier = supplier
        self._lock = threading.Lock()
        self._firsts: list[int] = []  # first addresses of the blocks in use, ascending
        self._blocks: dict[int, tuple[int, Any]] = {}  # by first address: the end, and the supplied memory
        self.allocate = c.evenkeel_allocate(self._allocate)
        self.deallocate = c.evenkeel_deallocate(self._deallocate)

    def _allocate(self, nbytes: int, alignment: int, _: Any, place: int) -> int:
        try:
            first = self._block(nbytes, alignment)
        except BaseException as error:
            return _c.note(error, "memory")
        ctypes.c_void_p.from_address(place).value = first
        return int(c.EVENKEEL_OK)

    def _block(self, nbytes: int, alignment: int) -> int:
        asked = nbytes + alignment - 1
        array = _arrays.Rows(self._supplier(asked), "memory").array
        if array.ndim != 1 or not array.flags.c_contiguous:
            _c.refuse("allocate", "returned a buffer that is not one contiguous row", "Return a contiguous one-dimensional array")
        if not array.flags.writeable:
            _c.refuse("allocate", "returned a read-only buffer", "Return memory that can be written")
        first = -(-_c.address(array) // alignment) * alignment
        if first + nbytes > _c.address(array) + array.nbytes:
            _c.refuse("allocate", f"was asked for {counted(asked, 'byte')}, but returned {array.nbytes}", "Return as many bytes as requested")
        with self._lock:
            at = bisect.bisect(self._firsts, first)
            meets_next = at < len(self._firsts) and self._firsts[at] < first + nbytes
            if meets_next or at > 0 and self._blocks[self._firsts[at - 1]][0] > first:
                _c.refuse("allocate", "returned memory that is already in use", "Return each block again only after Evenkeel has released it")
            self._firsts.insert(at, first)
            self._blocks[first] = first + nbytes, array
        return first

    def _deallocate(self, block: int, _: Any) -> None:
        with self._lock:
            del self._firsts[bisect.bisect_left(self._firsts, block)]
            _, array = self._blocks.pop(block)
        del array  # may run code of the program, so not under the lock
