"""Memory that a client shares with a server on its machine, so that values do not travel through a socket. docs/formats.md
describes the protocol. Needs NumPy."""

from __future__ import annotations

import http.client
import mmap
import os
import weakref
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from evenkeel._http import Body
from evenkeel.errors import InputError

LEAST_BYTES = 64 << 10  # smaller bodies travel through the socket, which is faster
UNUSABLE = 424  # the status if the server cannot use the area
_AREA = "Evenkeel-Area"  # the number of the memory file's descriptor
_PIECES = "Evenkeel-Pieces"  # the number of pieces of memory that are the body, which the area lists by address and size
_BODY = "Evenkeel-Body"  # the number of bytes of the answer in the area
_MOST = 32  # areas at a time, since each has a file descriptor
_IDLE_BYTES = 512 << 20
_forks = 0

Bytes = npt.NDArray[np.uint8]


class AreaRefused(InputError):
    """The server cannot use the area."""


def _count_fork() -> None:
    global _forks
    _forks += 1


os.register_at_fork(before=_count_fork)


class _Area:
    """A memory file. A forked child shares its memory, so it is not used for anything else after a fork."""

    def __init__(self) -> None:
        self.file = os.memfd_create("evenkeel-area", os.MFD_CLOEXEC)
        self.size = 0
        self._forks = _forks
        weakref.finalize(self, os.close, self.file).atexit = False

    @property
    def is_reusable(self) -> bool:
        return self._forks == _forks

    def bytes(self, size: int) -> Bytes:
        """Its first bytes, as an array that all views of it refer to: NumPy skips arrays between a view and such a base."""
        if self.size < size:
            self.size = max(1 << (size - 1).bit_length(), mmap.PAGESIZE)
            os.ftruncate(self.file, self.size)
            self._memory = mmap.mmap(self.file, self.size)
        return np.frombuffer(self._memory, np.uint8, size)


class Areas:
    """The areas of a client. Threads may share them."""

    def __init__(self) -> None:
        self._idle: list[_Area] = []
        self._alive: weakref.WeakSet[_Area] = weakref.WeakSet()

    @staticmethod
    def are_possible() -> bool:
        return hasattr(os, "memfd_create")

    def take(self) -> _Area | None:
        """Returns an area that nobody uses; None if too many are in use, or memory runs out."""
        try:
            while True:
                area = self._idle.pop()
                if area.is_reusable:
                    return area
        except IndexError:
            pass
        if len(self._alive) >= _MOST:
            return None
        try:
            area = _Area()
        except OSError:
            return None
        self._alive.add(area)
        return area

    def give_back(self, area: _Area) -> None:
        """Called when nobody uses the area. Finalizers call it, which may run at any time, so it takes no lock."""
        if area.is_reusable and area.size + sum(idle.size for idle in tuple(self._idle)) <= _IDLE_BYTES:
            self._idle.append(area)


class AreaRequest:
    """A request whose body is read from this process, and whose answer is written to an area. Every attempt has an area of
    its own, because the server may still use that of an attempt that failed. An area is used for another request only after
    its attempt has been answered, and after the last view of the answer is gone.

    ``body``  bytes, which are sent, or parts, which the server reads from this process's memory
    """

    def __init__(self, areas: Areas, body: Body) -> None:
        self._areas, self._body = areas, body
        self._area: _Area | None = None

    def prepare(self) -> tuple[Body, Mapping[str, str]]:
        """Returns the body and headers of the next attempt."""
        self._area = self._areas.take()
        if self._area is None:
            return self._body, {}
        headers = {_AREA: str(self._area.file)}
        if isinstance(self._body, bytes):
            return self._body, headers
        arrays = [np.frombuffer(part, np.uint8) for part in self._body if part.nbytes]
        pieces = np.array([(array.ctypes.data, array.size) for array in arrays], np.uint64)
        self._area.bytes(pieces.nbytes)[:] = pieces.reshape(-1).view(np.uint8)
        return b"", {**headers, _PIECES: str(len(arrays))}

    def answer(self, response: http.client.HTTPResponse) -> Bytes | None:
        """Returns the answer if it is in the area. The area is in use while views of the array exist."""
        size = response.headers.get(_BODY)
        if size is None or self._area is None:
            return None
        area, self._area = self._area, None
        found = area.bytes(int(size))
        weakref.finalize(found, self._areas.give_back, area).atexit = False
        return found

    def end(self) -> None:
        """Called after an attempt has been answered."""
        if self._area is not None:
            self._areas.give_back(self._area)
            self._area = None
