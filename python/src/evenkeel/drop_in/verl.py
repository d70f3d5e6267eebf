"""verl.utils.seqlen_balancing and verl.trainer.ppo.prefix_grouper_utils, with verl's names and results.

    from evenkeel.drop_in.verl import rearrange_micro_batches, get_reverse_idx

Lengths are in tokens, and indices count samples from 0. Lists may be lists, tuples, arrays or tensors of integers;
functions return lists of lists of ints. Invalid input raises evenkeel.InputError.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from evenkeel import _c
from evenkeel._text import counted
from evenkeel.drop_in import _native, _shared

if TYPE_CHECKING:
    import torch

    from evenkeel.drop_in.prefix_grouper import PrefixGrouper

__all__ = [
    "balanced_chunk_range",
    "build_pg_from_micro_batch",
    "build_position_ids_for_prefix_grouper",
    "calculate_workload",
    "ceildiv",
    "get_group_balanced_partitions",
    "get_reverse_idx",
    "get_seqlen_balanced_partitions",
    "greedy_partition",
    "karmarkar_karp",
    "log_seqlen_unbalance",
    "prepare_dynamic_batch",
    "rearrange_micro_batches",
    "restore_dynamic_batch",
    "roundup_divisible",
]


def ceildiv(a: int, b: int) -> int:
    """Returns a / b, rounded up."""
    return -(-a // b)


def roundup_divisible(a: int, b: int) -> int:
    """Returns the smallest multiple of b that is at least a."""
    return ceildiv(a, b) * b


def balanced_chunk_range(num_items: int, num_chunks: int, chunk_idx: int) -> tuple[int, int]:
    """Returns the items [begin, end) of one of `num_chunks` chunks of `num_items` items; the first chunks may be one longer."""
    if num_items < 0:
        _shared.refuse("num_items", f"is {num_items}; it must be at least 0")
    if num_chunks < 1:
        _shared.refuse("num_chunks", f"is {num_chunks}; it must be at least 1")
    if not 0 <= chunk_idx < num_chunks:
        _shared.refuse("chunk_idx", f"is {chunk_idx}; it must be from 0 to {num_chunks - 1}")
    size, longer = divmod(num_items, num_chunks)
    begin = chunk_idx * size + min(chunk_idx, longer)
    return begin, begin + size + (chunk_idx < longer)


def calculate_workload(seqlen_list: Any) -> Any:
    """Returns the work of samples, up to a factor: 24576 s + s^2 for s tokens, of a 7B model. Takes a tensor, an array or an int."""
    return seqlen_list * (24576 + seqlen_list)


def karmarkar_karp(seqlen_list: Sequence[int], k_partitions: int, equal_size: bool) -> list[list[int]]:
    """Partitions indices of `seqlen_list` into `k_partitions` groups of nearly equal sums by the largest differencing method.

    The heaviest group comes first; indices are in the order in which the method joined them. With ``equal_size``, groups
    have equal sizes; their number must divide that of the values. With fewer values than groups, the last groups are empty.
    Raises InputError for an empty list. Takes O(n log n) time.
    """
    if len(seqlen_list) == 0:
        _shared.refuse("seqlen_list", "is empty", "Pass at least one length")
    return _native.karmarkar_karp(seqlen_list, k_partitions, equal_size, False)


def get_seqlen_balanced_partitions(seqlen_list: Sequence[int], k_partitions: int, equal_size: bool) -> list[list[int]]:
    """Like karmarkar_karp, with ascending indices in each group and no empty groups. Raises InputError for fewer values than
    groups."""
    return _native.karmarkar_karp(seqlen_list, k_partitions, equal_size, True)


def greedy_partition(seqlen_list: Sequence[int], k_partitions: int, equal_size: bool) -> list[list[int]]:
    """Partitions indices into `k_partitions` groups: in input order, each value goes to the group with the smallest sum, or
    the first of several. With ``equal_size``, a group with fewer values counts as lighter."""
    if k_partitions < 1:
        _shared.refuse("k_partitions", f"is {k_partitions}; it must be at least 1")
    if equal_size and len(seqlen_list) % k_partitions != 0:
        _shared.refuse("equal_size", f"{counted(len(seqlen_list), 'value')} cannot be divided into "
                       f"{counted(k_partitions, 'group')} of equal size")
    partitions: list[list[int]] = [[] for _ in range(k_partitions)]
    lightest = [(0, 0, group) for group in range(k_partitions)]  # (number of values if equal_size, sum, group)
    for item, length in enumerate(seqlen_list):
        count, total, group = lightest[0]
        partitions[group].append(item)
        heapq.heapreplace(lightest, (count + bool(equal_size), total + length, group))
    return partitions


def get_group_balanced_partitions(
    seqlen_list: Sequence[int], uid_list: Sequence[Hashable], k_partitions: int, *, strict_reference: bool = False
) -> list[list[int]]:
    """Partitions indices into `k_partitions` groups of nearly equal work, keeping samples with the same uid together.

    Each group is ascending. The groups' numbers of uids differ by at most one. At least `k_partitions` uids are needed.

    ``strict_reference``: only neighbors with the same uid stay together, and `k_partitions` must divide the number of
    such runs.
    """
    uids = uid_list.tolist() if hasattr(uid_list, "tolist") else [_plain(uid) for uid in uid_list]
    if strict_reference:
        runs = (run for run, (_, same) in enumerate(itertools.groupby(uids)) for _ in same)
        return _native.balance_whole_groups(seqlen_list, list(runs), k_partitions, True)
    numbers: dict[Hashable, int] = {}
    keys = [numbers.setdefault(uid, len(numbers)) for uid in uids]
    return _native.balance_whole_groups(seqlen_list, keys, k_partitions, False)


def _plain(uid: Any) -> Any:
    """Converts a tensor with one element to a number, because equal tensors have different hashes."""
    return uid.item() if hasattr(uid, "item") else uid


def log_seqlen_unbalance(
    seqlen_list: Sequence[int], partitions: Sequence[Sequence[int]], prefix: str, *, strict_reference: bool = False
) -> dict[str, Any]:
    """Returns metrics of how evenly tokens are distributed, with names that begin with `prefix/`: `min`, `max` and
    `minmax_diff` of the sums of consecutive runs of the list, one per partition; `balanced_min` and `balanced_max` of the
    partitions' sums; and `mean`.

    Lengths of runs differ by at most one. ``strict_reference``: they are equal, and the remaining values are another run.
    """
    metrics = _shared.whole_counts(_native.seqlen_balance_metrics(seqlen_list, partitions, prefix), "mean")
    run = len(seqlen_list) // len(partitions)
    if strict_reference and run > 0:
        sums = [sum(seqlen_list[i : i + run]) for i in range(0, len(seqlen_list), run)]
        least, most = min(sums), max(sums)
        metrics |= {f"{prefix}/min": least, f"{prefix}/max": most, f"{prefix}/minmax_diff": most - least}
    return metrics


def rearrange_micro_batches(
    batch: Any,
    max_token_len: int,
    dp_group: Any = None,
    num_batches_divided_by: int | None = None,
    same_micro_num_in_dp: bool = True,
    min_num_micro_batch: int | None = None,
    use_dynamic_bsz_balance: bool = True,
    force_group_size: int = 1,
    *,
    strict_reference: bool = False,
) -> tuple[list[Any], list[list[int]]]:
    """Returns micro-batches of at most `max_token_len` tokens and nearly equal work, and the samples in each.

    ``batch``                    columns by name, with "attention_mask" [n, width] or nested "input_ids": a dict of tensors,
                                 a TensorDict, another type that supports ``batch[key]`` and ``batch[indices]``, or a
                                 DataProto; micro-batches have the same type
    ``dp_group``                 a group of torch.distributed (None: all ranks) whose ranks have the same number of micro-batches, if
                                 ``same_micro_num_in_dp`` and torch.distributed is initialized
    ``num_batches_divided_by``   the number of micro-batches is a multiple of it
    ``min_num_micro_batch``      minimum number of micro-batches
    ``use_dynamic_bsz_balance``  whether cheap micro-batches are at both ends; otherwise, the heaviest come first
    ``force_group_size``         this many neighboring samples stay together

    If there are more micro-batches than samples, some have no rows. Raises LimitError, on every rank of the group, for a
    sample of more than `max_token_len` tokens.

    ``strict_reference``: `max_token_len` only determines the number of micro-batches; it must not be below the width of the
    mask, and there must be a sample for every micro-batch.
    """
    together = _shared.is_distributed() and same_micro_num_in_dp
    num_samples = 0

    def planner() -> Any:
        nonlocal num_samples
        lengths, width = _lengths_and_width(_shared.tensors_of(batch))
        num_samples = len(lengths)
        if strict_reference and max_token_len < width:
            _shared.refuse("max_token_len", f"is {max_token_len}, less than the {counted(width, 'column')} of the batch")
        settings = (max_token_len, min_num_micro_batch or 1, num_batches_divided_by or 1, use_dynamic_bsz_balance)
        if force_group_size == 1:
            return _native.verl_micro_batches(lengths, *settings)
        return _GroupedMicroBatches(lengths, force_group_size, *settings)

    partitions = _shared.plan_together(planner, dp_group, together=together, strict=strict_reference)
    available = num_samples // force_group_size
    if strict_reference and len(partitions) > available:
        kind = "sample" if force_group_size == 1 else "group"
        _shared.refuse("batch", f"has {counted(available, kind)} for {counted(len(partitions), 'micro-batch', 'micro-batches')}")
    return _shared.split(batch, partitions), partitions


def _lengths_and_width(tensors: Any) -> tuple[list[int], int]:
    ids = tensors["input_ids"] if "input_ids" in tensors.keys() else None
    if getattr(ids, "is_nested", False):
        lengths = [row.shape[0] for row in ids.unbind()]
        return lengths, max(lengths, default=0)
    mask = tensors["attention_mask"]
    return _shared.lengths_of(mask), mask.shape[-1]


class _GroupedMicroBatches:
    """Like _native.verl_micro_batches, for groups of adjacent samples that stay together."""

    def __init__(
        self, lengths: list[int], group_size: int, max_tokens: int, min_count: int, multiple_of: int, pipeline_order: bool
    ) -> None:
        if group_size < 1 or len(lengths) % group_size != 0:
            _shared.refuse("force_group_size", f"{counted(len(lengths), 'sample')} cannot be split into groups of {group_size}")
        if max_tokens < 1:
            _shared.refuse("max_token_len", f"is {max_tokens}; it must be at least 1")
        groups = [lengths[i : i + group_size] for i in range(0, len(lengths), group_size)]
        self.group_size = group_size
        self.pipeline_order = pipeline_order
        self.tokens = [sum(group) for group in groups]
        self.work = [sum(map(calculate_workload, group)) for group in groups]
        self.max_tokens = max_tokens
        self.multiple_of = multiple_of
        by_tokens = min(len(groups), ceildiv(sum(lengths), max_tokens))
        self.least: int = max(1, min_count, by_tokens)

    def count(self) -> int:
        return self.least

    def agreed_count(self, largest: int) -> int:
        return roundup_divisible(largest, self.multiple_of)

    def count_under_cap(self, count: int) -> int:
        for group, tokens in enumerate(self.tokens):
            if tokens > self.max_tokens:
                _c.raise_error("limit", f"group {group}", f"takes {counted(tokens, 'token')}, but a micro-batch can hold only "
                               f"{self.max_tokens}",
                               "Raise max_token_len, or shorten the samples of the group")
        count = self.agreed_count(count)
        while count < len(self.tokens) and not self._keeps_cap(count):
            count = self.agreed_count(count + 1)
        return count

    def of(self, count: int) -> list[list[int]]:
        size = self.group_size
        return [[i for g in part for i in range(g * size, (g + 1) * size)] for part in self._groups(count)]

    def _keeps_cap(self, count: int) -> bool:
        return all(sum(self.tokens[g] for g in part) <= self.max_tokens for part in self._groups(count))

    def _groups(self, count: int) -> list[list[int]]:
        parts = [sorted(part) for part in karmarkar_karp(self.work, count, False)]
        if not self.pipeline_order:
            return parts
        parts.sort(key=lambda part: (sum(self.work[g] for g in part), part[0] if part else 0), reverse=True)
        return parts[::2][::-1] + parts[1::2]


def get_reverse_idx(idx_map: Any) -> Any:
    """Returns the inverse of a permutation of 0..n-1, which has i at idx_map[i]: a list for a list or a tuple, otherwise the
    type of ``idx_map``. Raises InputError if it is not a permutation."""
    inverse = _native.inverse_order(idx_map)
    if isinstance(idx_map, (list, tuple)):
        return inverse
    if hasattr(idx_map, "new_tensor"):
        return idx_map.new_tensor(inverse)
    return type(idx_map)(inverse) if not hasattr(idx_map, "dtype") else _array_like(inverse, idx_map)


def _array_like(values: list[int], like: Any) -> Any:
    import numpy

    return numpy.asarray(values, dtype=like.dtype)


def prepare_dynamic_batch(
    data: Any,
    max_token_len: int,
    dp_group: Any = None,
    num_batches_divided_by: int | None = None,
    same_micro_num_in_dp: bool = True,
    min_num_micro_batch: int | None = None,
    use_dynamic_bsz_balance: bool = True,
    *,
    strict_reference: bool = False,
) -> tuple[list[Any], list[list[int]]]:
    """Like rearrange_micro_batches, for a DataProto: each micro-batch is one, with its rows of `batch` and `non_tensor_batch`
    and a copy of `meta_info`."""
    return rearrange_micro_batches(
        data, max_token_len, dp_group, num_batches_divided_by, same_micro_num_in_dp, min_num_micro_batch,
        use_dynamic_bsz_balance, strict_reference=strict_reference,
    )


def restore_dynamic_batch(data: torch.Tensor, batch_idx_list: Sequence[Sequence[int]]) -> torch.Tensor:
    """Restores the samples' order of rows [n, ...] that are in the order of the micro-batches. Gradients flow. Raises
    InputError unless the lists contain every row exactly once."""
    order = [index for indices in batch_idx_list for index in indices]
    if len(order) != data.shape[0]:
        _shared.refuse("data", f"has {counted(data.shape[0], 'row')} for {counted(len(order), 'sample')}")
    return _shared.rows_of(data, _native.inverse_order(order))


def build_position_ids_for_prefix_grouper(
    prefix_grouper: PrefixGrouper, *, strict_reference: bool = False
) -> torch.Tensor:
    """Returns position ids [groups, width] int64, on the device of the padding mask: a prefix counts from 0, a suffix from
    its prefix's length; 0 in padding.

    ``strict_reference``: computes them as if padding were on the right, regardless of where it is.
    """
    from evenkeel.drop_in.prefix_grouper import PrefixGrouper

    if not strict_reference:
        return prefix_grouper.position_ids(0)
    group_info = [list(info) for info in prefix_grouper.group_info]
    device = prefix_grouper.padding_mask.device
    dense = PrefixGrouper(group_info, device=device).position_ids(0)
    wide = dense.new_zeros(dense.shape[0], prefix_grouper.padding_mask.shape[1])
    wide[:, : dense.shape[1]] = dense
    return wide


def build_pg_from_micro_batch(
    micro_batch: Any, pad_token_id: int, padding_mode: str = "right"
) -> tuple[PrefixGrouper, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns a PrefixGrouper of the samples of a micro-batch, and the inputs of a model.

    ``micro_batch``   "prompts" [n, sp] with `pad_token_id` in padding, "responses" [n, ss], "response_mask" [n, ss] and
                      "uid" [n]; neighbors with the same uid share the first one's prompt. Nested tensors are padded on the
                      right first

    Returns the PrefixGrouper, input ids [groups, s] with 0 in padding, the attention mask and position ids of the same
    shape, and the responses and their mask, padded.
    """
    import torch

    from evenkeel.drop_in.prefix_grouper import PrefixGrouper

    prompts, responses = _pad(micro_batch["prompts"], pad_token_id), _pad(micro_batch["responses"], pad_token_id)
    response_mask = _pad(micro_batch["response_mask"], 0)
    uids = micro_batch["uid"]
    if type(uids).__name__ == "NonTensorData":  # tensordict's wrapper of a whole column
        uids = uids.data
    uids = [_plain(uid) for uid in uids]
    if not len(uids) == prompts.shape[0] == responses.shape[0]:
        _shared.refuse("micro_batch", f"has {counted(prompts.shape[0], 'prompt')}, {counted(responses.shape[0], 'response')} and "
                       f"{counted(len(uids), 'uid')}; the three numbers must be equal")
    sizes = [len(list(same)) for _, same in itertools.groupby(uids)]
    first = torch.tensor([0, *itertools.accumulate(sizes)][:-1], dtype=torch.long, device=prompts.device)
    prefixes = prompts.index_select(0, first)
    prefix_mask = prefixes != pad_token_id
    grouper = PrefixGrouper.from_ungrouped_masks(prefix_mask, response_mask, sizes, prompts.device, padding_mode)
    input_ids = grouper.concat_input(prefixes, prefix_mask, responses, response_mask)
    return grouper, input_ids, grouper.padding_mask, grouper.position_ids(0), responses, response_mask


def _pad(tensor: torch.Tensor, value: float) -> torch.Tensor:
    """Pads a nested tensor on the right to [n, longest]; returns other tensors unchanged."""
    import torch

    if not getattr(tensor, "is_nested", False):
        return tensor
    return torch.nn.utils.rnn.pad_sequence(list(tensor.unbind()), batch_first=True, padding_value=value)
