"""Partitioning numbers evenly, packing them into bins, and what a sample costs.

Costs and sizes are lists, integer arrays of one dimension or tensors; whole numbers, none negative.
"""

from __future__ import annotations

from typing import Any

from evenkeel import _core
from evenkeel._core import CostModel, Partition

__all__ = [
    "CostModel",
    "Partition",
    "karmarkar_karp",
    "max_over_mean",
    "max_sum_lower_bound",
    "min_bins_lower_bound",
    "pack_bins",
]


def karmarkar_karp(costs: Any, k: int, *, equal_count: bool = False) -> Partition:
    """Partitions n costs into k groups of nearly equal sums, by the largest differencing method.

    Identical to the implementation that verl, slime and MindSpeed-RL share, the order of groups, of items inside them and
    of all ties included. With ``equal_count`` the groups' numbers of items differ by one at most.

    >>> karmarkar_karp([1, 2, 2, 5, 3, 7, 6, 3], 4).to_lists()
    [[1, 6], [7, 4, 0], [3, 2], [5]]

    O(n log n) for balanced inputs. Raises InputError when k < 1, a cost is negative or the costs sum to 2**62 or more.
    """
    return _core.karmarkar_karp(costs, k, equal_count)


def max_sum_lower_bound(costs: Any, k: int, *, equal_count: bool = False) -> int:
    """A sum that the largest group of any partition into k groups reaches.

    >>> max_sum_lower_bound([9, 9, 1, 2, 3, 4], 3)
    10
    """
    return _core.max_sum_lower_bound(costs, k, equal_count)


def pack_bins(
    sizes: Any,
    max_size: int | None = None,
    *,
    max_items: int | None = None,
    counts: Any = None,
    algorithm: str = "first-fit-decreasing",
) -> Partition:
    """Packs items into few bins, none of which holds more than ``max_size`` or more than ``max_items``.

    ``counts`` says how many each item counts for where several that must stay together are one item. ``algorithm`` is
    first-fit-decreasing, best-fit-decreasing or modified-first-fit-decreasing. Raises LimitError that names the first item
    that fits no bin, InputError for a negative size or lists of different lengths.

    >>> pack_bins([5, 4, 3, 2], 7).to_lists()
    [[0, 3], [1, 2]]
    """
    return _core.pack_bins(sizes, max_size, max_items, counts, algorithm)


def min_bins_lower_bound(
    sizes: Any, max_size: int | None = None, *, max_items: int | None = None, counts: Any = None
) -> int:
    """The fewest bins that any packing needs, by Martello and Toth's L2 bounds. 0 for no items.

    >>> min_bins_lower_bound([5, 4, 3, 2], 7)
    2
    """
    return _core.min_bins_lower_bound(sizes, max_size, max_items, counts)


def max_over_mean(work: Any, speeds: Any = None) -> float:
    """The largest work over the mean of k ranks' work; as time where speeds are given, one a rank: work over speed.

    >>> max_over_mean([3, 1])
    1.5
    """
    return _core.max_over_mean(work, speeds)
