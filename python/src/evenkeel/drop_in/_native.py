"""The library's functions for the drop-in modules, with results as lists of ints. ``Numbers`` are integers in the forms that users of
other projects have (see whole_numbers)."""

from __future__ import annotations

import ctypes
import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from evenkeel import _arrays, _c, packing, padding, prefix
from evenkeel import _prototypes as c
from evenkeel._c import lib
from evenkeel._text import counted, describe_count
from evenkeel.balance import compute_bins, compute_partition, lists_of
from evenkeel.errors import InputError

Numbers = Any
Int64s = npt.NDArray[np.int64]
Lists = list[list[int]]

UNLIMITED = 2**63 - 1


def whole_numbers(values: Numbers, name: str) -> Int64s:
    """Converts integers from lists, tuples, arrays, tensors on any device and other iterables, whose entries may be ints, floats
    without a fraction, and scalars of NumPy and torch. Raises InputError for anything else."""
    sequence = _as_sequence(values, name)
    numbers = _arrays.small_integers(sequence)
    if numbers is None:
        # A copy, because accessing an entry may run code that changes a list.
        numbers = np.array([_whole_number(entry, f"{name}[{i}]") for i, entry in enumerate(tuple(sequence))], np.int64)
    return numbers


def _as_sequence(values: Any, name: str) -> list[Any] | tuple[Any, ...]:
    if isinstance(values, (list, tuple)):
        return values
    if hasattr(values, "tolist"):
        listed = values.tolist()
        if isinstance(listed, list):
            return listed
    elif not isinstance(values, (str, bytes)) and isinstance(values, Iterable):
        return list(values)
    _c.raise_error("input", name, f"is a {type(values).__name__}; it must be a list of whole numbers")


def _whole_number(entry: Any, where: str) -> int:
    try:
        if not isinstance(entry, float):
            number = operator.index(entry)
        elif math.isfinite(entry) and entry.is_integer():
            number = int(entry)
        else:
            raise TypeError
        if -(1 << 63) <= number < 1 << 63:
            return number
    except TypeError:
        pass
    _c.raise_error("input", where, f"is {entry!r}, which is not a whole number of 64 bits")


# Partitions. If `checked`, fewer values than groups are rejected, and the items of each group are sorted.

def karmarkar_karp(seqlen_list: Numbers, k_partitions: int, equal_size: bool, checked: bool) -> Lists:
    return _partition(c.EVENKEEL_KARMARKAR_KARP, seqlen_list, k_partitions, equal_size, checked)


def longest_processing_time(seqlen_list: Numbers, k_partitions: int, equal_size: bool, checked: bool) -> Lists:
    return _partition(c.EVENKEEL_LONGEST_PROCESSING_TIME, seqlen_list, k_partitions, equal_size, checked)


def _partition(algorithm: int, seqlen_list: Numbers, k_partitions: int, equal_size: bool, checked: bool) -> Lists:
    costs, k = whole_numbers(seqlen_list, "seqlen_list"), _c.int64(k_partitions)
    if k < 1:
        _c.raise_error("input", "k_partitions", f"is {k}; it must be at least 1")
    if checked and len(costs) < k:
        _c.raise_error("input", "k_partitions", f"is {k}, but {describe_count(len(costs), 'value', only=True)}, so some groups would be empty")
    if equal_size and k >= 1 and len(costs) % k != 0:
        _c.raise_error("input", "equal_size", f"{counted(len(costs), 'value')} cannot be divided into {counted(k, 'group')} of equal size")
    items, offsets = compute_partition(algorithm, costs, k, equal_size)
    if checked:
        lib.evenkeel_sort_groups(_c.address(items), len(items), _c.address(offsets), k)
    return lists_of(items, offsets)


def longest_processing_time_with_cap(seqlen_list: Numbers, k_partitions: int, max_token_len: int) -> Lists:
    costs, k, groups = whole_numbers(seqlen_list, "seqlen_list"), _c.int64(k_partitions), ctypes.c_int64()
    if k < 1 and len(costs):
        _c.raise_error("input", "k_partitions", f"is {k}; it must be at least 1")
    items, offsets = np.empty_like(costs), np.empty(max(k, 0) + len(costs) + 1, np.int64)
    lib.evenkeel_partition_with_cap(_c.address(costs), len(costs), k, _c.int64(max_token_len), _c.address(items),
                                    _c.address(offsets), ctypes.byref(groups))
    return lists_of(items, offsets[: groups.value + 1])


def balanced_bin_packing(seqlen_list: Numbers, max_capacity: int) -> Lists:
    sizes = whole_numbers(seqlen_list, "seqlen_list")
    if _c.int64(max_capacity) < 1:
        _c.raise_error("input", "max_capacity", f"is {max_capacity}; it must be at least 1")
    return lists_of(*compute_bins(c.EVENKEEL_BALANCED_BINS, sizes, None, _c.int64(max_capacity), UNLIMITED))


def balance_whole_groups(seqlen_list: Numbers, keys: Numbers, k_partitions: int, equal_groups: bool) -> Lists:
    lengths, numbers, k = whole_numbers(seqlen_list, "seqlen_list"), whole_numbers(keys, "uid_list"), _c.int64(k_partitions)
    if len(numbers) != len(lengths):
        _c.raise_error("input", "uid_list", f"has {counted(len(numbers), 'entry', 'entries')} for {counted(len(lengths), 'length')}")
    items, offsets = np.empty_like(lengths), np.empty(max(k, 0) + 1, np.int64)
    try:
        lib.evenkeel_partition_whole_groups(_c.address(lengths), _c.address(numbers), len(lengths), k, bool(equal_groups),
                                            _c.address(items), _c.address(offsets))
    except InputError as error:  # in C, the arguments have other names
        names = {"lengths": "seqlen_list", "k": "k_partitions", "equal_groups": "equal_size"}
        name, bracket, index = error.where.partition("[")
        _c.refuse(names.get(name, name) + bracket + index, error.message, error.hint)
    return lists_of(items, offsets)


def roll_batch_balance(lengths: Numbers, dp_size: int, mini_batch: int | None) -> Lists:
    values, dp = whole_numbers(lengths, "attention_mask"), _c.int32(dp_size)
    items, offsets = np.empty_like(values), np.empty(max(dp, 0) + 1, np.int64)
    lib.evenkeel_roll_batch_balance(_c.address(values), len(values), dp, UNLIMITED if mini_batch is None else _c.int64(mini_batch),
                                    _c.address(items), _c.address(offsets))
    return lists_of(items, offsets)


def inverse_order(idx_map: Numbers) -> list[int]:
    order = whole_numbers(idx_map, "idx_map")
    inverse = np.empty_like(order)
    try:
        lib.evenkeel_inverse_order(_c.address(order), len(order), _c.address(inverse))
    except InputError as error:  # in C, the argument is called order
        _c.refuse(error.where.replace("order", "idx_map", 1), error.message, error.hint)
    return inverse.tolist()


def _groups_of(partitions: Iterable[Numbers]) -> tuple[Int64s, Int64s]:
    """Returns the items and offsets of lists."""
    lists = [whole_numbers(group, f"partitions[{g}]") for g, group in enumerate(partitions)]
    return np.concatenate(lists or [np.empty(0, np.int64)]), np.cumsum([0, *map(len, lists)], dtype=np.int64)


def seqlen_balance_metrics(seqlen_list: Numbers, partitions: Iterable[Numbers], prefix: str) -> dict[str, float]:
    lengths, (items, offsets) = whole_numbers(seqlen_list, "seqlen_list"), _groups_of(partitions)
    names = ("min", "max", "minmax_diff", "balanced_min", "balanced_max", "mean")
    figures = (ctypes.c_double * len(names))()
    lib.evenkeel_seqlen_balance_figures(_c.address(lengths), len(lengths), _c.address(items), len(items), _c.address(offsets),
                                        len(offsets) - 1, figures)
    return {f"{prefix}/{name}": figure for name, figure in zip(names, figures)}


def dynamic_batching_metrics(lengths: Numbers, actual_tokens: int, max_length: int, stage: str) -> dict[str, float]:
    values = whole_numbers(lengths, "attention_mask")
    names = ("valid_tokens", "actual_tokens_origin", "actual_tokens", "removed_padding_tokens", "removed_padding_ratio")
    figures = (ctypes.c_double * len(names))()
    lib.evenkeel_dynamic_batching_figures(_c.address(values), len(values), _c.int64(actual_tokens), _c.int64(max_length), figures)
    prefix = f"dynamic_batching/{stage}/" if stage else "dynamic_batching/"
    return {prefix + name: figure for name, figure in zip(names, figures)}


class MicroBatches:
    """Micro-batches of one rank's samples: the count that the rank requests, the count that ranks derive from the largest
    request, the smallest count from there on that keeps the cap, and the micro-batches themselves."""

    def __init__(self, lengths: Numbers, batching: Any) -> None:
        self._lengths = whole_numbers(lengths, "lengths")
        self._batching = ctypes.byref(batching)

    def _samples(self) -> tuple[int, int]:
        return _c.address(self._lengths), len(self._lengths)

    def count(self) -> int:
        count = ctypes.c_int64()
        lib.evenkeel_batching_count(self._batching, *self._samples(), ctypes.byref(count))
        return count.value

    def agreed_count(self, largest: int) -> int:
        count = ctypes.c_int64()
        lib.evenkeel_batching_agreed_count(self._batching, _c.int64(largest), ctypes.byref(count))
        return count.value

    def count_under_cap(self, count: int) -> int:
        kept = ctypes.c_int64()
        lib.evenkeel_batching_count_under_cap(self._batching, *self._samples(), _c.int64(count), ctypes.byref(kept))
        return kept.value

    def of(self, count: int) -> Lists:
        items, offsets = np.empty_like(self._lengths), np.empty(max(_c.int64(count), 0) + 1, np.int64)
        lib.evenkeel_batching_micro_batches(self._batching, *self._samples(), count, _c.address(items), _c.address(offsets))
        return lists_of(items, offsets)


def mindspeed_micro_batches(lengths: Numbers, max_tokens: int, max_samples: int | None) -> MicroBatches:
    return MicroBatches(lengths, c.evenkeel_batching(system=c.EVENKEEL_MINDSPEED_RL, max_tokens=_c.int64(max_tokens),
                                                     max_samples=UNLIMITED if max_samples is None else _c.int64(max_samples)))


def verl_micro_batches(
    lengths: Numbers, max_tokens: int, min_count: int, multiple_of: int, pipeline_order: bool
) -> MicroBatches:
    return MicroBatches(lengths, c.evenkeel_batching(system=c.EVENKEEL_VERL, max_tokens=_c.int64(max_tokens),
                                                     min_count=_c.int64(min_count), multiple_of=_c.int64(multiple_of),
                                                     pipeline_order=bool(pipeline_order)))


def roll_micro_batches(
    lengths: Numbers, max_tokens: int, min_count: int, multiple_of: int, alignment: int
) -> MicroBatches:
    return MicroBatches(lengths, c.evenkeel_batching(system=c.EVENKEEL_ROLL, max_tokens=_c.int64(max_tokens),
                                                     min_count=_c.int64(min_count), multiple_of=_c.int64(multiple_of),
                                                     alignment=_c.int64(alignment)))


def padded_batches(
    lengths: Numbers, dp_size: int, max_tokens: int, length_round: int, count_multiple: int
) -> tuple[Lists, Lists, list[int], int]:
    """Returns the shards, [begin, end) of each micro-batch in them, padded lengths, and the number of tokens with padding."""
    values, dp, multiple = whole_numbers(lengths, "attention_mask"), _c.int32(dp_size), _c.int64(count_multiple)
    found = _arrays.named_arrays(lib.evenkeel_padded_batches, _c.address(values), len(values), dp, _c.int64(max_tokens),
                                 _c.int64(length_round), multiple)
    return (lists_of(found["items"], found["offsets"]), np.stack([found["begin"], found["end"]], 1).tolist(),
            found["padded_length"].tolist(), found["padded_tokens"])


def sequence_alignment(tp_size: int, cp_size: int, extra: int) -> int:
    return packing.sequence_alignment(tp_size, cp_size, extra=extra)


def packed_rows(
    lengths: Numbers, alignment: int, cp_size: int, cp_rank: int, rows: int | None
) -> tuple[Int64s, Int64s, int, npt.NDArray[np.int32], npt.NDArray[np.int32], int]:
    """Returns for one CP rank: the index of each true token in the concatenation of all sequences, its row in the rank's
    packed tensor, the tensor's rows, cu_seqlens, cu_seqlens_padded, max_seqlen."""
    layout = packing.PackedLayout(whole_numbers(lengths, "lengths"), alignment=alignment, cp=cp_size)
    if rows is not None:
        layout = layout.padded_to(rows)
    sequence, begin, end, local = layout._runs(cp_rank).T
    tokens = _arrays.ranges(layout.cu_seqlens[sequence] + begin, end - begin)
    return (tokens, _arrays.ranges(local, end - begin), layout.local_rows, layout.cu_seqlens, layout.cu_seqlens_padded,
            layout.max_seqlen)


def prediction_rows(lengths: Numbers, prompt_lengths: Numbers) -> list[tuple[int, int]]:
    """Returns [begin, end) of the rows that predict each response; begin is -1 if nothing predicts its first token."""
    begins, ends = padding.response_prediction_rows(whole_numbers(lengths, "seqlens_in_batch"),
                                                    whole_numbers(prompt_lengths, "prompt_length"))
    return list(zip(begins.tolist(), ends.tolist()))


def prefix_layout(group_info: Iterable[Numbers], side: str, mask: Any) -> prefix.PrefixLayout:
    """Returns the layout of groups that are padded on a side, or have tokens where a mask is 1."""
    lengths = [whole_numbers(group, f"group_info[{g}]") for g, group in enumerate(group_info)]
    return prefix.PrefixLayout(prefix.PrefixGroups(lengths), padding=side, mask=mask)


class MindSpeedCp:
    """How MindSpeed-RL splits a batch for context parallelism."""

    _ALGORITHMS = {"megatron_cp_algo": c.EVENKEEL_CP_RING, "ulysses_cp_algo": c.EVENKEEL_CP_ULYSSES,
                   "hybrid_cp_algo": c.EVENKEEL_CP_HYBRID}

    def __init__(self, size: int, algorithm: str, ulysses_degree: int, cut_each_sequence: bool) -> None:
        if algorithm not in self._ALGORITHMS:
            _c.raise_error("input", "context_parallel_algo",
                           f"is '{algorithm}'; it must be megatron_cp_algo, ulysses_cp_algo or hybrid_cp_algo")
        self._cp = c.evenkeel_mindspeed_cp(_c.int32(size), self._ALGORITHMS[algorithm], _c.int32(ulysses_degree),
                                           bool(cut_each_sequence))

    def ring_degree(self) -> int:
        degree = ctypes.c_int32()
        lib.evenkeel_mindspeed_ring_degree(self._cp, ctypes.byref(degree))
        return degree.value

    def columns(self, columns: int, sequence_ends: Numbers, cp_rank: int) -> Int64s:
        ends, count = whole_numbers(sequence_ends, "actual_seq_len"), ctypes.c_int64()
        indices = np.empty(max(_c.int64(columns), 0), np.int64)
        lib.evenkeel_mindspeed_columns(self._cp, columns, _c.address(ends), len(ends), _c.int32(cp_rank), _c.address(indices),
                                       ctypes.byref(count))
        return indices[: count.value]


def take_rows(
    source: int, num_rows: int, row_bytes: int, partitions: Iterable[Numbers], targets: Sequence[int], threads: int
) -> None:
    """Copies rows between addresses in memory owned by the caller."""
    items, offsets = _groups_of(partitions)
    if len(targets) != len(offsets) - 1:
        _c.raise_error("input", "targets", f"there are {len(targets)} for {counted(len(offsets) - 1, 'group')}")
    lib.evenkeel_take_rows(source, num_rows, row_bytes, _c.address(items), len(items), _c.address(offsets), len(offsets) - 1,
                           (ctypes.c_void_p * len(targets))(*targets), threads)
