"""Ends what runs in the background before Python does: a thread that wants Python while it ends aborts the process."""

from __future__ import annotations

import atexit
import os
import sys
import weakref
from collections.abc import Iterator
from typing import Any

_open: weakref.WeakSet[Any] = weakref.WeakSet()
_ending = False


def end_before_python_does(steps: Iterator[Any]) -> None:
    """A generator that Python's exit closes, where the program has not. All ranks do so after the same step."""
    _open.add(steps)


def _end() -> None:
    global _ending
    if _ending or not len(_open):
        return
    _ending = True
    if getattr(sys, "last_value", None) is None:
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
