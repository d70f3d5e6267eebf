"""Partitions numbers evenly, packs them into bins, and computes costs of samples.

Costs and sizes are lists, integer arrays of one dimension or tensors; all values are nonnegative integers."""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from evenkeel import _arrays, _c
from evenkeel import _prototypes as c
from evenkeel._c import lib
from evenkeel._text import counted, describe_count

__all__ = [
    "CostModel",
    "Partition",
    "karmarkar_karp",
    "max_over_mean",
    "max_sum_lower_bound",
    "min_bins_lower_bound",
    "pack_bins",
]

Int64s = npt.NDArray[np.int64]

_UNLIMITED = 2**63 - 1
_ALGORITHMS = {
    "first-fit-decreasing": c.EVENKEEL_FIRST_FIT_DECREASING,
    "best-fit-decreasing": c.EVENKEEL_BEST_FIT_DECREASING,
    "modified-first-fit-decreasing": c.EVENKEEL_MODIFIED_FIRST_FIT_DECREASING,
}


class Partition:
    """Items 0..n-1 in k groups. Partitions with a different order of groups or items are not equal.

    ``partition[g]`` is an int64 array of group g's items, ``len(partition)`` is k, and iteration visits the groups."""

    __slots__ = ("_items", "_offsets")

    def __init__(self, groups: Iterable[Any]) -> None:
        """Creates a partition from one list of items per group."""
        self._items, self._offsets = _arrays.concatenate(groups, "groups")

    @classmethod
    def _of(cls, items: Int64s, offsets: Int64s) -> Partition:
        partition = cls.__new__(cls)
        partition._items, partition._offsets = items, offsets
        return partition

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, group: int) -> Int64s:
        at = operator.index(group)
        if not -len(self) <= at < len(self):
            raise IndexError(f"group {at} does not exist; {describe_count(len(self), 'group')}")
        at %= len(self)
        return self._items[self._offsets[at] : self._offsets[at + 1]].copy()

    def __iter__(self) -> Iterator[Int64s]:
        return (self[g] for g in range(len(self)))

    @property
    def items(self) -> Int64s:
        """All items, group by group: [n] int64."""
        return self._items.copy()

    @property
    def offsets(self) -> Int64s:
        """The offset of each group in ``items``, followed by n: [k + 1] int64."""
        return self._offsets.copy()

    def to_lists(self) -> list[list[int]]:
        """Returns the groups as lists of ints."""
        return lists_of(self._items, self._offsets)

    def sorted(self) -> Partition:
        """Returns the same groups, each with its items in ascending order."""
        items = self._items.copy()
        lib.evenkeel_sort_groups(_c.address(items), len(items), _c.address(self._offsets), len(self))
        return Partition._of(items, self._offsets)

    def sums(self, costs: Any) -> Int64s:
        """Returns the sum of each group's costs: [k] int64. Raises InputError if an item has no cost."""
        values = _arrays.integers(costs, "costs")
        missing = (self._items < 0) | (self._items >= len(values))
        if missing.any():
            item = int(self._items[missing.argmax()])
            _c.raise_error("input", "costs", f"{describe_count(len(values), 'cost')}, but the partition contains item {item}")
        before = np.concatenate(([0], np.cumsum(values[self._items])))
        return before[self._offsets[1:]] - before[self._offsets[:-1]]

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, Partition) and np.array_equal(self._items, other._items)
                and np.array_equal(self._offsets, other._offsets))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Partition({len(self._items)} items in {len(self)} groups)"

    def __reduce__(self) -> tuple[Any, ...]:
        return Partition, (self.to_lists(),)


class CostModel:
    """The work of a sample of s tokens: linear * s + quadratic * s**2.

    With a sliding window of w tokens, the square of a longer sample becomes w**2 + 2 * w * (s - w). ``model(tokens)``
    is the cost of one length, or an int64 array of the costs of many. Raises LimitError if a cost is 2**62 or more,
    InputError for a negative length."""

    __slots__ = ("_model",)

    def __init__(self, *, linear: int = 1, quadratic: int = 0, window: int = 0) -> None:
        self._model = c.evenkeel_cost_model(_not_negative(linear, "linear"), _not_negative(quadratic, "quadratic"),
                                            _not_negative(window, "window"))

    @staticmethod
    def tokens() -> CostModel:
        """Returns the model in which every token costs 1."""
        return CostModel()

    @staticmethod
    def flops_7b() -> CostModel:
        """Returns the model that verl and ROLL use for 7B models: 24576 s + s**2."""
        model = CostModel()
        lib.evenkeel_cost_model_flops_7b(ctypes.byref(model._model))
        return model

    @staticmethod
    def from_model(
        *,
        hidden_size: int,
        layers: int,
        heads: int,
        ffn_size: int,
        vocab_size: int,
        kv_heads: int = 0,
        head_dim: int = 0,
        active_experts: int = 1,
        shared_experts: int = 0,
        shared_ffn_size: int = 0,
        sliding_window: int = 0,
        backward: bool = False,
    ) -> CostModel:
        """Derives the model from a transformer's shape by counting FLOPs. If 0, kv_heads is heads, head_dim is
        hidden_size / heads, shared_ffn_size is ffn_size, and there is no sliding window. Raises InputError for a size that
        is missing or negative."""
        shape = c.evenkeel_model_shape(
            hidden_size=_c.int64(hidden_size), layers=_c.int64(layers), heads=_c.int64(heads), kv_heads=_c.int64(kv_heads),
            head_dim=_c.int64(head_dim), ffn_size=_c.int64(ffn_size), vocab_size=_c.int64(vocab_size),
            active_experts=_c.int64(active_experts), shared_experts=_c.int64(shared_experts),
            shared_ffn_size=_c.int64(shared_ffn_size), sliding_window=_c.int64(sliding_window), backward=bool(backward))
        model = CostModel()
        lib.evenkeel_cost_model_of_shape(ctypes.byref(shape), ctypes.byref(model._model))
        return model

    @property
    def linear(self) -> int:
        return int(self._model.linear)

    @property
    def quadratic(self) -> int:
        return int(self._model.quadratic)

    @property
    def window(self) -> int:
        """The sliding window in tokens; 0 if attention covers all tokens."""
        return int(self._model.window)

    @overload
    def __call__(self, tokens: int) -> int: ...
    @overload
    def __call__(self, tokens: Sequence[int] | npt.NDArray[Any]) -> Int64s: ...
    def __call__(self, tokens: Any) -> Any:
        if hasattr(type(tokens), "__index__") and not hasattr(tokens, "__len__"):
            length, cost = ctypes.c_int64(_not_negative(tokens, "tokens")), ctypes.c_int64()
            lib.evenkeel_costs(self._model, ctypes.byref(length), 1, ctypes.byref(cost))
            return cost.value
        return self._costs_of(_arrays.integers(tokens, "tokens"))

    def _costs_of(self, lengths: Int64s) -> Int64s:
        costs = np.empty_like(lengths)
        lib.evenkeel_costs(ctypes.byref(self._model), _c.address(lengths), len(lengths), _c.address(costs))
        return costs

    def of_group(self, prefix: int, suffixes: Any) -> int:
        """Returns the work of samples that share a prefix of ``prefix`` tokens, counting the prefix once."""
        lengths, cost = _arrays.integers(suffixes, "suffixes"), ctypes.c_int64()
        lib.evenkeel_cost_of_group(ctypes.byref(self._model), _c.int64(prefix), _c.address(lengths), len(lengths),
                                   ctypes.byref(cost))
        return cost.value

    def _parts(self) -> tuple[int, int, int]:
        return self.linear, self.quadratic, self.window

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CostModel) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self._parts())

    def __repr__(self) -> str:
        return "CostModel(linear={}, quadratic={}, window={})".format(*self._parts())

    def __reduce__(self) -> tuple[Any, ...]:
        return _cost_model, self._parts()


def _cost_model(linear: int, quadratic: int, window: int) -> CostModel:
    return CostModel(linear=linear, quadratic=quadratic, window=window)


def _not_negative(value: int, name: str) -> int:
    number = _c.int64(value)
    if number < 0:
        _c.raise_error("input", name, f"is {number}; it must be at least 0")
    return number


def karmarkar_karp(costs: Any, k: int, *, equal_count: bool = False) -> Partition:
    """Partitions n costs into k groups of nearly equal sums by the largest differencing method.

    Identical to the implementation that verl, slime and MindSpeed-RL share, including tie-breaking and the order of groups
    and of items in them. With ``equal_count``, the groups' numbers of items differ by at most one.

    >>> karmarkar_karp([1, 2, 2, 5, 3, 7, 6, 3], 4).to_lists()
    [[1, 6], [7, 4, 0], [3, 2], [5]]

    O(n log n) for balanced inputs. Raises InputError when k < 1, a cost is negative or the costs sum to 2**62 or more.
    """
    return Partition._of(*compute_partition(c.EVENKEEL_KARMARKAR_KARP, _arrays.integers(costs, "costs"), k, equal_count))


def compute_partition(algorithm: int, costs: Int64s, k: int, equal_count: bool) -> tuple[Int64s, Int64s]:
    """Returns the items and offsets of a partition."""
    groups = _c.int64(k)
    items, offsets = np.empty_like(costs), np.empty(max(groups, 0) + 1, np.int64)
    lib.evenkeel_partition(algorithm, _c.address(costs), len(costs), groups, bool(equal_count), _c.address(items),
                           _c.address(offsets))
    return items, offsets


def lists_of(items: Int64s, offsets: Int64s) -> list[list[int]]:
    """Returns the groups of a partition as lists of ints."""
    every, bounds = items.tolist(), offsets.tolist()
    return [every[begin:end] for begin, end in zip(bounds, bounds[1:])]


def max_sum_lower_bound(costs: Any, k: int, *, equal_count: bool = False) -> int:
    """Returns a lower bound on the largest group sum of any partition into k groups.

    >>> max_sum_lower_bound([9, 9, 1, 2, 3, 4], 3)
    10
    """
    values, bound = _arrays.integers(costs, "costs"), ctypes.c_int64()
    lib.evenkeel_max_sum_lower_bound(_c.address(values), len(values), _c.int64(k), bool(equal_count), ctypes.byref(bound))
    return bound.value


def pack_bins(
    sizes: Any,
    max_size: int | None = None,
    *,
    max_items: int | None = None,
    counts: Any = None,
    algorithm: str = "first-fit-decreasing",
) -> Partition:
    """Packs items into few bins, each with a total of at most ``max_size`` and at most ``max_items`` items.

    ``counts`` is the number of samples in each item, if some items consist of several samples that must stay together;
    ``max_items`` then limits samples. ``algorithm`` is first-fit-decreasing, best-fit-decreasing or
    modified-first-fit-decreasing. Raises a LimitError that names the first item that does not fit into a bin, InputError
    for a negative size or lists of different lengths.

    >>> pack_bins([5, 4, 3, 2], 7).to_lists()
    [[0, 3], [1, 2]]
    """
    values, of_items, *limits = _bin_arguments(sizes, max_size, max_items, counts)
    return Partition._of(*compute_bins(_c.value_of(_ALGORITHMS, algorithm, "algorithm"), values, of_items, *limits))


def compute_bins(algorithm: int, sizes: Int64s, counts: Int64s | None, max_size: int, max_items: int) -> tuple[Int64s, Int64s]:
    """Returns the items and offsets of bins."""
    items, offsets, bins = np.empty_like(sizes), np.empty(len(sizes) + 1, np.int64), ctypes.c_int64()
    lib.evenkeel_pack_bins(algorithm, _c.address(sizes), None if counts is None else _c.address(counts), len(sizes), max_size,
                           max_items, _c.address(items), _c.address(offsets), ctypes.byref(bins))
    return items, offsets[: bins.value + 1].copy()


def _bin_arguments(sizes: Any, max_size: int | None, max_items: int | None, counts: Any) -> tuple[Int64s, Int64s | None, int, int]:
    values = _arrays.integers(sizes, "sizes")
    of_items = None if counts is None else _arrays.integers(counts, "counts")
    if of_items is not None and len(of_items) not in (0, len(values)):
        _c.raise_error("input", "counts", f"{describe_count(len(of_items), 'count')} for {counted(len(values), 'size')}; the two numbers "
                       "must be equal")
    size, items = (_UNLIMITED if limit is None else _c.int64(limit) for limit in (max_size, max_items))
    return values, of_items if of_items is not None and len(of_items) else None, size, items


def min_bins_lower_bound(
    sizes: Any, max_size: int | None = None, *, max_items: int | None = None, counts: Any = None
) -> int:
    """Returns Martello and Toth's L2 lower bound on the number of bins; 0 if there are no items.

    >>> min_bins_lower_bound([5, 4, 3, 2], 7)
    2
    """
    (values, of_items, *limits), bound = _bin_arguments(sizes, max_size, max_items, counts), ctypes.c_int64()
    lib.evenkeel_min_bins_lower_bound(_c.address(values), None if of_items is None else _c.address(of_items), len(values),
                                      *limits, ctypes.byref(bound))
    return bound.value


def max_over_mean(work: Any, speeds: Any = None) -> float:
    """Returns the maximum over the mean of k ranks' work, or of their times, work / speed, if ``speeds`` are given.

    >>> max_over_mean([3, 1])
    1.5
    """
    values, result = _arrays.integers(work, "work"), ctypes.c_double()
    of_ranks = np.empty(0, np.int64) if speeds is None else _arrays.integers(speeds, "speeds")
    if len(of_ranks) not in (0, len(values)):
        _c.raise_error("input", "speeds", f"{describe_count(len(of_ranks), 'speed')} for {counted(len(values), 'rank')}")
    lib.evenkeel_max_over_mean(_c.address(values), _c.address(of_ranks) if len(of_ranks) else None, len(values),
                               ctypes.byref(result))
    return result.value
