"""Ends background threads before Python exits: a thread that needs Python during exit aborts the process."""

from __future__ import annotations

import atexit
import os
import sys
import weakref
from collections.abc import Iterator
from typing import Any

_open: weakref.WeakSet[Any] = weakref.WeakSet()
_left_behind: list[Any] = []
_ending = False


def end_before_python_does(steps: Iterator[Any]) -> None:
    """Registers a generator to be closed at exit if the program has not closed it. All ranks close it after the same step."""
    _open.add(steps)


def leave_behind(running: Any) -> None:
    """Keeps an object alive until the process ends, because destroying it would wait for other ranks, which may not
    destroy theirs."""
    _left_behind.append(running)


def _end() -> None:
    global _ending
    if _ending or not (len(_open) or _left_behind):
        return
    _ending = True
    if getattr(sys, "last_value", None) is None and not _left_behind:
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
