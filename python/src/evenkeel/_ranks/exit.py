"""Ends background threads before Python exits: a thread that needs Python during exit aborts the process."""

from __future__ import annotations

import atexit
import os
import sys
import weakref
from collections.abc import Iterator
from typing import Any

_open: weakref.WeakSet[Any] = weakref.WeakSet()
_kept: list[Any] = []
_ending = False


def close_at_exit(steps: Iterator[Any]) -> None:
    """Registers a generator to be closed at exit if the program has not closed it. All ranks close it after the same step."""
    _open.add(steps)


def keep_until_exit(running: Any) -> None:
    """Keeps an object alive until the process ends, because destroying it would wait for other ranks, which may not
    destroy theirs."""
    _kept.append(running)


def _end() -> None:
    global _ending
    if _ending or not (len(_open) or _kept):
        return
    _ending = True
    if getattr(sys, "last_value", None) is None and not _kept:
        for steps in list(_open):
            steps.close()
        return
    # An exception ends the program, possibly on this rank only. Closing the generator would then wait for the other
    # ranks forever. Instead, the other exit handlers run, and the process ends with status 1, so that the launcher
    # sees the failure.
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)


atexit.register(_end)
