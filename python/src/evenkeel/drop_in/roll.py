"""ROLL's balancing, dynamic batching and sequence packing, with its names and results.

    from evenkeel.drop_in.roll import dynamic_batching_shard, batch_balance, restore_results_order

A DataProto may be any object with ``.batch``, which holds tensors by name, and ``.meta_info``, a dict; if it has a
``.non_tensor_batch``, its rows are moved, too. Lengths are in tokens, and indices count samples from 0. Invalid input
raises evenkeel.InputError.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evenkeel import _c
from evenkeel._text import counted
from evenkeel.drop_in import _native, _shared, verl
from evenkeel.drop_in._dynamic_batching import (
    get_dynamic_batching_loss_scale,
    make_micro_batch_iter_for_dynamic_batching,
    make_mini_batch_iter_for_dynamic_batching,
)

if TYPE_CHECKING:
    import torch

__all__ = [
    "LoadBalancePacker",
    "PackedSeqParams",
    "SequencePacker",
    "SequencePackingConfig",
    "SequencePackingPacker",
    "batch_balance",
    "dynamic_batching_shard",
    "get_dynamic_batching_loss_scale",
    "get_seqlen_balanced_partitions",
    "get_sequence_packing_packer",
    "log_seqlen_unbalance",
    "make_micro_batch_iter_for_dynamic_batching",
    "make_micro_batch_iter_for_sequence_packing",
    "make_mini_batch_iter_for_dynamic_batching",
    "restore_results_order",
]

log_seqlen_unbalance = verl.log_seqlen_unbalance


# Balancing over DP ranks

def get_seqlen_balanced_partitions(
    seqlen_list: Sequence[Any], k_partitions: int, equal_size: bool = False
) -> list[list[int]]:
    """Partitions indices into `k_partitions` groups of nearly equal sums, ascending in each, by the largest differencing
    method. Values are integers of any type. No group is empty: raises InputError for fewer values than groups."""
    return verl.get_seqlen_balanced_partitions(seqlen_list, k_partitions, equal_size)


def batch_balance(
    batch: Any,
    dp_size: int,
    minibatch_size: int,
    logging_prefix: str = "global_seqlen",
    keep_minibatch: bool = False,
    *,
    strict_reference: bool = False,
) -> dict[str, Any]:
    """Reorders a DataProto in place so that each of `dp_size` equal runs has nearly equal work. Returns balance metrics (see
    log_seqlen_unbalance). With ``keep_minibatch``, each run of `minibatch_size` samples over all ranks is distributed
    separately; samples after the last whole one are a smaller mini-batch. If `dp_size` does not divide the number of
    samples, the first ranks have one sample more.

    ``strict_reference``: drops samples after the last whole mini-batch. `dp_size` must divide all samples, or each run.
    """
    lengths = _shared.lengths_of(batch.batch["attention_mask"])
    if keep_minibatch and minibatch_size < 1:
        _shared.refuse("minibatch_size", f"is {minibatch_size}; it must be at least 1")
    planned = len(lengths)
    if strict_reference:
        run = minibatch_size if keep_minibatch else len(lengths)
        if keep_minibatch:
            planned -= planned % minibatch_size
        if planned == 0 or run % dp_size != 0:
            _shared.refuse("batch", f"{counted(len(lengths), 'sample')} cannot be distributed to {counted(dp_size, 'rank')}, {run} at a time",
                           "Choose a minibatch_size that is divisible by dp_size and at most the number of samples" if keep_minibatch
                           else "Pass at least one sample, and a number that is divisible by dp_size")
    partitions = _native.roll_batch_balance(lengths[:planned], dp_size, minibatch_size if keep_minibatch else None)
    _shared.reorder(batch, [sample for partition in partitions for sample in partition])
    return log_seqlen_unbalance(lengths, partitions, logging_prefix, strict_reference=strict_reference)


# Dynamic batching

def dynamic_batching_shard(
    origin_batch: Any,
    dp_size: int,
    max_tokens_per_microbatch: int,
    sequence_length_round: int,
    pipeline_model_parallel_size: int | str | None = 1,
    virtual_pipeline_model_parallel_size: int | None = None,
    log_prefix: str | None = None,
    *,
    strict_reference: bool = False,
) -> tuple[Any, dict[str, Any]]:
    """Returns a DataProto with the same samples, ordered by the DP ranks' shards, and metrics of the padding removed.

    Samples of similar lengths share micro-batches of at most `max_tokens_per_microbatch` tokens, including padding, whose
    lengths are multiples of `sequence_length_round`. They are the same on every rank: ``meta_info`` of the result has
    global_micro_batch_indices, the range [begin, end) in a shard of each micro-batch, global_micro_batch_lengths, the same
    two as micro_batch_indices and micro_batch_lengths, and num_micro_batchs. With virtual pipeline stages, their number is
    a multiple of `pipeline_model_parallel_size`; if a shard has fewer samples than that, the last ones are empty. If
    `dp_size` does not divide the number of samples, the first shards have one sample more, and ``meta_info["shard_sizes"]`` has
    their sizes.

    Raises LimitError for a sample that is above the cap after rounding up.

    ``strict_reference``: `dp_size` must divide the samples, a micro-batch is split at most once, and an empty one may come
    first if the cap is below `sequence_length_round`.
    """
    stages = 1
    if isinstance(pipeline_model_parallel_size, str):  # older versions have the prefix at this position
        log_prefix = pipeline_model_parallel_size
    else:
        stages = pipeline_model_parallel_size or 1
    mask = origin_batch.batch["attention_mask"]
    lengths = _shared.lengths_of(mask)
    multiple = stages if virtual_pipeline_model_parallel_size else 1
    settings = (dp_size, max_tokens_per_microbatch, sequence_length_round)
    if strict_reference:
        _require_one_split(lengths, multiple, settings)
    elif max_tokens_per_microbatch < sequence_length_round:
        _c.raise_error("limit", "max_tokens_per_microbatch",
                          f"is {max_tokens_per_microbatch}; it must be at least sequence_length_round, {sequence_length_round}")
    shards, positions, padded_lengths, padded_tokens = _native.padded_batches(lengths, *settings, multiple)

    batch = _shared.select(origin_batch, [sample for shard in shards for sample in shard])
    batch.meta_info["global_micro_batch_indices"] = positions
    batch.meta_info["global_micro_batch_lengths"] = padded_lengths
    batch.meta_info["micro_batch_indices"] = positions
    batch.meta_info["micro_batch_lengths"] = padded_lengths
    batch.meta_info["num_micro_batchs"] = len(positions)
    if len(lengths) % dp_size != 0:
        batch.meta_info["shard_sizes"] = [len(shard) for shard in shards]
    metrics = _native.dynamic_batching_metrics(lengths, padded_tokens, mask.shape[-1], log_prefix or "")
    return batch, _shared.whole_counts(metrics, "removed_padding_ratio")


def _require_one_split(lengths: list[int], multiple: int, settings: tuple[int, int, int]) -> None:
    """Raises an error in the cases in which ROLL fails: shards of different sizes, or a count that cannot be reached by
    splitting each micro-batch once."""
    dp_size, num_samples = settings[0], len(lengths)
    if dp_size > 0 and num_samples % dp_size != 0:
        _shared.refuse("origin_batch", f"{counted(num_samples, 'sample')} cannot be distributed equally to {counted(dp_size, 'rank')}")
    if multiple <= 1:
        return
    positions = _native.padded_batches(lengths, *settings, 1)[1]
    count = verl.roundup_divisible(len(positions), multiple)
    splittable = sum(end - begin > 1 for begin, end in positions)
    if max(count, multiple) > num_samples // dp_size or count - len(positions) > splittable:
        _shared.refuse("pipeline_model_parallel_size",
                       f"the number of micro-batches, {len(positions)}, cannot be raised to a multiple of {multiple}")


# Sequence packing: which samples are packed together

@dataclasses.dataclass
class SequencePackingConfig:
    """ROLL's packing settings, as documented in its class of this name."""

    algorithm: str = "none"  #: "none" or "load_balance"
    max_packed_sequence_length_train: int | None = None  #: tokens of a micro-batch, aligned
    max_packed_sequence_length_forward: int | None = None
    min_num_micro_batches_train: int = 1
    min_num_micro_batches_forward: int = 1


class SequencePackingPacker:
    """Algorithm "none": packs samples in order, `micro_batch_size` at a time."""

    def __init__(self, config: Any = None, *, strict_reference: bool = False) -> None:
        self.config = SequencePackingConfig() if config is None else config
        self.strict_reference = strict_reference

    def get_pad_factor(self, cp_size: int, tp_size: int) -> int:
        """Returns the multiple to which lengths are rounded up: the least common multiple of 16 and 2 * cp * tp (tp if cp
        is 1)."""
        return _native.sequence_alignment(tp_size, cp_size, 16)

    @staticmethod
    def calculate_workload(seqlen: int) -> Any:
        """Returns the work of a sample of s tokens: 24576 s + s^2."""
        return verl.calculate_workload(seqlen)

    def make_micro_batch_iter_for_sequence_packing(
        self, mini_batch: Any, tp_size: int, cp_size: int, vp_size: int, is_train: bool = False, dp_group: Any = None,
        micro_batch_size: int | None = None,
    ) -> Iterator[Any]:
        """Returns runs of `micro_batch_size` samples. The size must divide the number of samples."""
        size = _shared.size_of(mini_batch)
        if not micro_batch_size or micro_batch_size < 1:
            _shared.refuse("micro_batch_size", f"is {micro_batch_size}; it must be at least 1")
        if size % micro_batch_size != 0:
            _shared.refuse("mini_batch", f"{counted(size, 'sample')} cannot be split into micro-batches of {micro_batch_size}")
        mini_batch.meta_info["partition_indices_list"] = []
        mini_batch.meta_info["num_micro_batchs"] = size // micro_batch_size
        runs = [list(range(i, i + micro_batch_size)) for i in range(0, size, micro_batch_size)]
        return (_shared.select(mini_batch, run) for run in runs)

    @staticmethod
    def restore_results_order(
        results: Mapping[str, torch.Tensor], partition_indices_list: Sequence[Sequence[int]]
    ) -> Mapping[str, torch.Tensor]:
        """Returns the results unchanged, since nothing was reordered."""
        return results


class LoadBalancePacker(SequencePackingPacker):
    """Algorithm "load_balance": micro-batches of nearly equal work."""

    def make_micro_batch_iter_for_sequence_packing(
        self, mini_batch: Any, tp_size: int, cp_size: int, vp_size: int, is_train: bool = False, dp_group: Any = None,
        micro_batch_size: int | None = None,
    ) -> Iterator[Any]:
        """Returns micro-batches of at most max_packed_sequence_length tokens, with every sequence aligned to get_pad_factor
        and cheap ones at both ends. All ranks of ``dp_group`` have the same number, a multiple of ``vp_size``; if that
        exceeds the number of samples, some are empty. Ranks plan and agree during the call, not during the iteration.

        ``mini_batch.meta_info["partition_indices_list"]`` has the samples of each. A micro-batch's meta_info is a copy of
        the mini-batch's, with micro_batch_idx, partition_indices, num_micro_batchs, mini_batch_size and is_padding_batch.

        Raises LimitError, on every rank, for a sample whose aligned length is above the cap.

        With ``strict_reference``, the cap only determines the number of micro-batches; it must not be below the width of
        the mask, and there must be a sample for every micro-batch.
        """
        phase = "train" if is_train else "forward"
        cap = getattr(self.config, f"max_packed_sequence_length_{phase}")
        least = getattr(self.config, f"min_num_micro_batches_{phase}") or 1
        together = _shared.is_distributed()
        if together and dp_group is None:
            _shared.refuse("dp_group", "is None, though torch.distributed is initialized",
                           "Pass the process group of the data-parallel ranks")

        def planner() -> Any:
            if cap is None:
                _shared.refuse(f"max_packed_sequence_length_{phase}", "is not set", "Set it to the cap of a micro-batch")
            mask = mini_batch.batch["attention_mask"]
            if self.strict_reference and cap < mask.shape[-1]:
                _shared.refuse(f"max_packed_sequence_length_{phase}",
                               f"is {cap}, less than the {counted(mask.shape[-1], 'column')} of the batch")
            alignment = self.get_pad_factor(cp_size, tp_size)
            return _native.roll_micro_batches(_shared.lengths_of(mask), cap, least, max(1, vp_size or 1), alignment)

        partitions = _shared.plan_together(planner, dp_group, together=together, strict=self.strict_reference)
        size = _shared.size_of(mini_batch)
        if self.strict_reference and len(partitions) > size:
            _shared.refuse("mini_batch", f"has {counted(size, 'sample')} for {counted(len(partitions), 'micro-batch', 'micro-batches')}")
        mini_batch.meta_info["partition_indices_list"] = list(partitions)
        return (self._micro_batch(mini_batch, size, partitions, i) for i in range(len(partitions)))

    @staticmethod
    def _micro_batch(mini_batch: Any, size: int, partitions: list[list[int]], i: int) -> Any:
        micro_batch = _shared.select(mini_batch, partitions[i])
        micro_batch.meta_info.update(
            micro_batch_idx=i, is_padding_batch=False, partition_indices=partitions[i], num_micro_batchs=len(partitions),
            mini_batch_size=size,
        )
        return micro_batch

    @staticmethod
    def restore_results_order(
        results: Mapping[str, torch.Tensor], partition_indices_list: Sequence[Sequence[int]]
    ) -> dict[str, torch.Tensor]:
        """Restores the samples' order of tensors [n, ...] whose rows are in the order of the micro-batches. Scalars and values
        that are not tensors are unchanged. Raises InputError for another number of rows."""
        if not results:
            return {}
        import torch

        samples = [sample for indices in partition_indices_list for sample in indices]
        order = _native.inverse_order(samples)
        restored = {}
        for key, values in results.items():
            has_rows = isinstance(values, torch.Tensor) and values.dim() > 0
            if has_rows and values.shape[0] != len(order):
                _shared.refuse(f"results[{key!r}]", f"has {counted(values.shape[0], 'row')} for {counted(len(order), 'sample')}")
            restored[key] = _shared.rows_of(values, order) if has_rows else values
        return restored


def get_sequence_packing_packer(config: Any = None, *, strict_reference: bool = False) -> SequencePackingPacker:
    """Returns the packer of config.algorithm: "none" (also without a config) or "load_balance"."""
    packers = {"none": SequencePackingPacker, "load_balance": LoadBalancePacker}
    algorithm = "none" if config is None else config.algorithm
    if algorithm not in packers:
        _shared.refuse("algorithm", f"is {algorithm!r}; it must be none or load_balance")
    return packers[algorithm](config, strict_reference=strict_reference)


def make_micro_batch_iter_for_sequence_packing(
    mini_batch: Any, tp_size: int, cp_size: int, vp_size: int, is_train: bool = False, dp_group: Any = None,
    micro_batch_size: int | None = None, config: Any = None, *, strict_reference: bool = False,
) -> Iterator[Any]:
    """Returns the micro-batches of a mini-batch by the configuration's packer."""
    packer = get_sequence_packing_packer(config, strict_reference=strict_reference)
    return packer.make_micro_batch_iter_for_sequence_packing(
        mini_batch, tp_size, cp_size, vp_size, is_train, dp_group, micro_batch_size)


def restore_results_order(
    results: Mapping[str, torch.Tensor], partition_indices_list: Sequence[Sequence[int]], config: Any = None
) -> Mapping[str, torch.Tensor]:
    """Restores the samples' order of results by the configuration's packer; without a configuration, they are unchanged."""
    return get_sequence_packing_packer(config).restore_results_order(results, partition_indices_list)


# Sequence packing: tensors

@dataclasses.dataclass
class PackedSeqParams:
    """Stands in for Megatron-Core's class of this name if Megatron-Core is not installed."""

    qkv_format: str | None = None
    cu_seqlens_q: torch.Tensor | None = None
    cu_seqlens_kv: torch.Tensor | None = None
    cu_seqlens_q_padded: torch.Tensor | None = None
    cu_seqlens_kv_padded: torch.Tensor | None = None
    max_seqlen_q: int | None = None
    max_seqlen_kv: int | None = None


def _packed_seq_params_class() -> Any:
    try:
        return importlib.import_module("megatron.core.packed_seq_params").PackedSeqParams
    except ImportError:
        return PackedSeqParams


def _get_pad_factor(self: Any) -> int:
    """Returns the multiple to which lengths are rounded up: the least common multiple of 16 and 2 * cp * tp (tp if cp is 1)."""
    sizes = _sizes_of(self)
    return _native.sequence_alignment(sizes.tp_size, sizes.cp_size, 16)


def _pack_sequences(
    self: Any,
    input_tensor: torch.Tensor,
    attention_mask: torch.Tensor,
    pad_packed_seq_to: int | None = None,
    pad_val: float = 0,
    *,
    strict_reference: bool = False,
) -> tuple[torch.Tensor, Any, torch.Tensor, torch.Tensor]:
    """Concatenates padded sequences, each aligned to a multiple of self._get_pad_factor(), and cuts them over the
    context-parallel ranks. Returns this rank's part.

    ``self``                ROLL's strategy, whose worker.rank_info has tp_size, cp_size and cp_rank, or a SequencePacker
    ``input_tensor``        [n, width, ...]
    ``attention_mask``      [n, width], 1 at tokens, with padding on any side
    ``pad_packed_seq_to``   the packed length over all ranks, to which the last sequence is extended
    ``pad_val``             the value in padding

    Returns the tensor [1, packed / cp, ...], Megatron's PackedSeqParams, and cu_seqlens and cu_seqlens_padded [n + 1]
    int32, of true and of aligned lengths over all ranks. Gradients flow.

    ``strict_reference``: a row with m ones provides its first m columns, regardless of where the ones are.
    """
    import torch

    from evenkeel.drop_in.mindspeed_rl import _token_positions

    if input_tensor.dim() < 2 or attention_mask.shape != input_tensor.shape[:2]:
        _shared.refuse("attention_mask", f"has the shape {tuple(attention_mask.shape)}, and the tensor has {tuple(input_tensor.shape)}; "
                       "they must be [samples, width] and [samples, width, ...]")
    sizes = _sizes_of(self)
    lengths = _shared.lengths_of(attention_mask)
    positions = _token_positions(attention_mask, lengths, strict_reference)
    tokens, rows, size, cu_seqlens, cu_seqlens_padded, max_seqlen = _native.packed_rows(
        lengths, self._get_pad_factor(), sizes.cp_size, sizes.cp_rank, pad_packed_seq_to)
    source = positions[torch.from_numpy(tokens).to(positions.device)]
    packed = _shared.move_rows(input_tensor.flatten(0, 1), source, rows, size, pad_val)[None]
    cu_seqlens, cu_seqlens_padded = (torch.from_numpy(c).to(input_tensor.device) for c in (cu_seqlens, cu_seqlens_padded))
    params = _packed_seq_params_class()(
        qkv_format="thd", cu_seqlens_q=cu_seqlens_padded, cu_seqlens_kv=cu_seqlens_padded,
        cu_seqlens_q_padded=cu_seqlens_padded, cu_seqlens_kv_padded=cu_seqlens_padded, max_seqlen_q=max_seqlen,
        max_seqlen_kv=max_seqlen,
    )
    return packed, params, cu_seqlens, cu_seqlens_padded


def _unpack_sequences(self: Any, output_tensor: torch.Tensor, cu_seqlens_padded: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yields this rank's part of each sequence, [1, aligned length / cp, ...], as views of the packed tensor."""
    ends = [end // _sizes_of(self).cp_size for end in cu_seqlens_padded.tolist()]
    for begin, end in zip(ends, ends[1:]):
        yield output_tensor[:, begin:end]


def _sizes_of(strategy: Any) -> Any:
    return strategy if hasattr(strategy, "cp_size") else strategy.worker.rank_info


class SequencePacker:
    """The packing of ROLL's Megatron strategy for callers without a strategy, on context-parallel rank `cp_rank` of `cp_size`.
    Lengths are rounded up for `tp_size`, or to a multiple of `pad_factor`."""

    def __init__(self, tp_size: int = 1, cp_size: int = 1, cp_rank: int = 0, pad_factor: int | None = None, *,
                 strict_reference: bool = False) -> None:
        self.tp_size, self.cp_size, self.cp_rank = tp_size, cp_size, cp_rank
        self.pad_factor = pad_factor
        self.strict_reference = strict_reference

    def _get_pad_factor(self) -> int:
        return _get_pad_factor(self) if self.pad_factor is None else self.pad_factor

    def _pack_sequences(
        self, input_tensor: torch.Tensor, attention_mask: torch.Tensor, pad_packed_seq_to: int | None = None,
        pad_val: float = 0,
    ) -> tuple[torch.Tensor, Any, torch.Tensor, torch.Tensor]:
        """Like the function _pack_sequences of this module."""
        return _pack_sequences(self, input_tensor, attention_mask, pad_packed_seq_to, pad_val,
                               strict_reference=self.strict_reference)

    _unpack_sequences = _unpack_sequences
