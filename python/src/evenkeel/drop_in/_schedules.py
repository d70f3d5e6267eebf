"""Plans for frameworks whose own arguments determine the ranks and the cap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenkeel._c import refuse
from evenkeel._text import counted
from evenkeel.planning import plan


def plan_micro_batches(lengths: Sequence[int], dp: int, micro_batch: dict[str, Any], sections: dict[str, Any]) -> list[list[list[int]]]:
    """Returns the samples of each micro-batch of each of ``dp`` ranks, ascending, as evenkeel.plan assigns them. All ranks have
    the same number of micro-batches, some of which may be empty. Raises InputError if ``sections`` sets what the framework determines.
    """
    others = sections.get("micro_batch", {})
    decided = {"mesh", "batch"} & set(sections) | {f"micro_batch.{key}" for key in {*micro_batch, "equal_counts"} & set(others)}
    if decided:
        refuse(min(decided), "is decided by the framework's own arguments", "Leave it out")
    settings: dict[str, Any] = {"balance": {"cost": "flops-7b"}, **sections}
    settings |= {"mesh": {"dp": dp}, "micro_batch": {**micro_batch, **others}}
    return [[part.samples.tolist() for part in rank.micro_batches] for rank in plan(lengths, **settings).ranks]


def plan_without_empty(
    lengths: Sequence[int], dp: int, micro_batch: dict[str, Any], sections: dict[str, Any], where: str
) -> list[list[list[int]]]:
    """Like ``plan_micro_batches``, for frameworks in which no micro-batch can be empty.

    A rank with few long samples may have fewer samples than other ranks have micro-batches. Each of its empty micro-batches gets
    the shortest sample of any micro-batch that has several. Raises InputError if there are fewer samples than micro-batches.
    """
    ranks = plan_micro_batches(lengths, dp, micro_batch, sections)
    parts = [part for rank in ranks for part in rank]
    if len(lengths) < len(parts):
        refuse(where, f"has {counted(len(lengths), 'sample')} for {counted(len(parts), 'micro-batch', 'micro-batches')} on "
               f"{counted(dp, 'rank')}, but no micro-batch can be empty",
               "Give a step more samples, or use fewer data-parallel ranks")
    for empty in (part for part in parts if not part):
        _, sample, source = min((lengths[sample], sample, part) for part in parts if len(part) > 1 for sample in part)
        source.remove(sample)
        empty.append(sample)
    return ranks
