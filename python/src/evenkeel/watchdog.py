"""A watchdog ends a job whose ranks would wait for each other without end (docs/reliability.md)."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from evenkeel._ranks import ranks_of

if TYPE_CHECKING:
    from evenkeel import _service
else:
    from evenkeel._ranks import extension as _service

__all__ = ["Watchdog", "tell_progress"]


class Watchdog:
    """Finds out that the job of ``group`` cannot go on, and why: a rank is stopped or cut off, or stays away while others wait
    for it. That is told within ``seconds``, and not before three quarters of them; 0: never.

        with evenkeel.Watchdog(torch.distributed.group.WORLD, seconds=300):
            for step in service:
                ...

    ``tells(text)`` is called on the rank that finds out: the cause, and a line a rank that says what it does. None prints it
    on the standard error output. ``ends(message)`` is called next, on every rank that can still be reached; None ends the
    process at once, with status 1. Both run on a thread of the watchdog's, and have to wait for Python's lock: torch, mpi4py
    and Evenkeel let go of it while they wait for other ranks. When ``ends`` returns, nothing is watched any more.

    Only Evenkeel's own waits are known as such; a rank that waits in another library looks busy where it polls, and away
    where it sleeps: give more ``seconds`` than the longest step takes, or call tell_progress() now and then.

    Collective: all ranks of the group make one. Raises InputError for seconds below 0, IoError where a rank cannot open a
    socket. It watches until close(), the end of its ``with``, or the end of Python.
    """

    def __init__(
        self,
        group: Any,
        seconds: float = 60,
        *,
        tells: Callable[[str], object] | None = None,
        ends: Callable[[str], object] | None = None,
    ) -> None:
        kept = [_service.Watchdog(ranks_of(group), seconds, tells, ends)]
        # Also before Python ends: one that goes without a word would look like one that is stopped.
        self.close = weakref.finalize(self, kept.clear)

    def __enter__(self) -> Watchdog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def tell_progress() -> None:
    """This process has got on with its own work, which may leave no other trace. Any thread; costs nothing."""
    _service.Watchdog.tell_progress()
