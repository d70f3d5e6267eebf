"""Memory that a client shares with a server on its machine, so that values that it gets do not travel through a socket.
docs/formats.md describes the protocol. Needs NumPy."""

from __future__ import annotations

import http.client
import mmap
import os
import weakref
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from evenkeel.errors import InputError

UNUSABLE = 424  # the status if the server cannot use the file
_FILE = "Evenkeel-Answer-File"  # the number of the memory file's descriptor
_BYTES = "Evenkeel-Answer-Bytes"  # the number of bytes of the answer in the file
_MAX_FILES = 32  # at a time, since each has a file descriptor
_MAX_IDLE_BYTES = 512 << 20
_forks = 0

Bytes = npt.NDArray[np.uint8]


class AnswerFileRefused(InputError):
    """The server cannot use the file."""


def _count_fork() -> None:
    global _forks
    _forks += 1


os.register_at_fork(before=_count_fork)


class _AnswerFile:
    """A memory file. A forked child shares its memory, so it is not used for another answer after a fork."""

    def __init__(self) -> None:
        self.file = os.memfd_create("evenkeel-answer", os.MFD_CLOEXEC)
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


class AnswerFiles:
    """The answer files of a client. Threads may share them."""

    def __init__(self) -> None:
        self._idle: list[_AnswerFile] = []
        self._alive: weakref.WeakSet[_AnswerFile] = weakref.WeakSet()

    @staticmethod
    def is_supported() -> bool:
        return hasattr(os, "memfd_create")

    def take(self) -> _AnswerFile | None:
        """Returns a file that nobody uses; None if too many are in use, or memory runs out."""
        try:
            while True:
                file = self._idle.pop()
                if file.is_reusable:
                    return file
        except IndexError:
            pass
        if len(self._alive) >= _MAX_FILES:
            return None
        try:
            file = _AnswerFile()
        except OSError:
            return None
        self._alive.add(file)
        return file

    def give_back(self, file: _AnswerFile) -> None:
        """Makes a file that is no longer used available again. Finalizers call it, which may run at any time, so it takes no lock."""
        if file.is_reusable and file.size + sum(idle.size for idle in tuple(self._idle)) <= _MAX_IDLE_BYTES:
            self._idle.append(file)


class FileAnswer:
    """The answer to one request, which the server may write to a file. Every attempt has a file of its own, because the
    server may still write to that of an attempt that failed. A file is used for another request only after its attempt has
    been answered, and after the last view of the answer is gone."""

    def __init__(self, files: AnswerFiles) -> None:
        self._files = files
        self._file: _AnswerFile | None = None

    def headers(self) -> Mapping[str, str]:
        """Returns the additional headers of the next attempt."""
        self._file = self._files.take()
        return {} if self._file is None else {_FILE: str(self._file.file)}

    def content(self, response: http.client.HTTPResponse) -> Bytes | None:
        """Returns the answer if it is in the file. The file is in use while views of the array exist."""
        size = response.headers.get(_BYTES)
        if size is None or self._file is None:
            return None
        file, self._file = self._file, None
        found = file.bytes(int(size))
        weakref.finalize(found, self._files.give_back, file).atexit = False
        return found

    def end(self) -> None:
        """Makes the file available again if the answer was not in it. Call it after the attempt has been answered."""
        if self._file is not None:
            self._files.give_back(self._file)
            self._file = None
