"""Ends what runs in the background before Python does: a thread that wants Python while it ends aborts the process."""

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
    """A generator that Python's exit closes, where the program has not. All ranks do so after the same step."""
    _open.add(steps)


def leave_behind(running: Any) -> None:
    """What cannot be ended, since other ranks may not do so."""
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
    # An exception ends the program, maybe on this rank alone: the others would be waited for without end. What else is to
    # be done at the exit is done, and the thread ends with the process, which its launcher sees fail.
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)


atexit.register(_end)
