"""Cuts each rank's own samples into micro-batches. All ranks make as many as the rank that needs the most."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from evenkeel._c import refuse
from evenkeel._text import counted
from evenkeel.errors import Error
from evenkeel.planning import plan

_FAILED = 2**31


def cut(
    lengths: Sequence[int], micro_batch: dict[str, Any], largest: Callable[[list[int]], list[int]], remedy: str, **sections: Any
) -> list[list[int]]:
    """Returns the samples of each micro-batch of this rank.

    ``micro_batch`` and ``sections`` are settings of evenkeel.plan. ``largest`` returns the elementwise maximum of numbers over the
    ranks. All ranks raise if a rank cannot cut its samples, or has fewer samples than the micro-batches that another rank
    needs; ``remedy`` is the hint in the latter case."""

    def make_plan(**settings: Any) -> Any:
        return plan(lengths, mesh={"dp": 1}, micro_batch={**micro_batch, **settings}, **sections)

    failure: Error | None = None
    count = _FAILED
    try:
        count = make_plan().num_micro_batches
    except Error as error:  # raised once the other ranks know about it
        failure = error
    count, least = largest([count, -len(lengths)])
    if failure:
        raise failure
    if count == _FAILED:
        refuse("micro-batches", "another rank cannot cut its samples into micro-batches", "See the error of that rank")
    if count > -least:
        refuse(
            "micro-batches",
            f"a rank has only {counted(-least, 'sample')}, but each rank needs {counted(count, 'micro-batch', 'micro-batches')} of at "
            f"most {counted(micro_batch['max_tokens'], 'token')}",
            remedy,
        )
    return [[int(index) for index in part.samples] for part in make_plan(min_count=count).ranks[0].micro_batches]
