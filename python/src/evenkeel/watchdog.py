"""A watchdog that ends a job whose ranks would wait for each other forever (docs/reliability.md)."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any

from evenkeel import _arrays, _c
from evenkeel import _prototypes as c
from evenkeel._c import service as lib
from evenkeel._ranks import ranks_of

__all__ = ["Watchdog", "record_progress"]


class Watchdog:
    """Detects that the job of ``group`` cannot continue, reports the reason, and ends the job.

        with evenkeel.Watchdog(torch.distributed.group.WORLD, seconds=300):
            for step in service:
                ...

    A job cannot continue if a rank is stopped or disconnected, or does not arrive while others wait for it.

    group      a communicator of mpi4py, or a process group of torch.distributed
    seconds    the time limit: a failure is reported after at least three quarters of it, and at most all of it. 0
               disables the watchdog
    report     ``report(text)`` is called on the rank that detects the failure. The text has the cause, and a line per
               rank with its current activity. None: prints the text to standard error
    terminate  ``terminate(message)`` is called afterwards, on every rank that can still be reached. None: ends the
               process at once, with status 1

    Both functions run on a thread of the watchdog, and have to wait for Python's global interpreter lock. torch, mpi4py
    and Evenkeel release it while they wait for other ranks. When ``terminate`` returns, the watchdog no longer watches
    anything.

    The watchdog only recognizes waits inside Evenkeel. A rank that waits in another library looks busy if that library
    polls, and absent if it sleeps. Set ``seconds`` above the duration of the longest step, or call record_progress()
    regularly.

    Creating a watchdog is collective: all ranks of the group create one. Raises InputError if ``seconds`` is negative,
    and IoError if a rank cannot open a socket. The watchdog runs until close(), the end of the ``with`` block, or the
    exit of Python.
    """

    def __init__(
        self,
        group: Any,
        seconds: float = 60,
        *,
        report: Callable[[str], object] | None = None,
        terminate: Callable[[str], object] | None = None,
    ) -> None:
        calls = _callback(report), _callback(terminate)
        pointer = _arrays.create(lib.evenkeel_watchdog_create, ranks_of(group), seconds, *calls, None)
        # Closes it before Python exits, too: other ranks would take a watchdog that ends silently for a stopped
        # one. The finalizer keeps the functions, which the watchdog's thread may call until it has ended.
        self.close = weakref.finalize(self, _end, [_arrays.Handle(pointer, lib.evenkeel_watchdog_destroy)], calls)

    def __enter__(self) -> Watchdog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def record_progress() -> None:
    """Records that this process has made progress in work that the watchdog cannot see. Cheap, and safe to call from
    any thread."""
    lib.evenkeel_watchdog_record_progress()


def _callback(function: Callable[[str], object] | None) -> Any:
    """Returns the function in the form that the watchdog calls. Python prints exceptions of the function, since nothing
    could catch them. Returns NULL for None: the watchdog then does not call Python, whose lock a stuck thread may hold."""
    if function is None:
        return c.evenkeel_watchdog_function()
    call = function
    return c.evenkeel_watchdog_function(lambda text, _: (call(_c.text(text)), None)[1])


def _end(watchdog: list[Any], calls: tuple[Any, Any]) -> None:
    watchdog.clear()
