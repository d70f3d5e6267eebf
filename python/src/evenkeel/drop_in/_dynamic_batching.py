"""Iterators over the micro-batches of ROLL's workers if micro-batches are padded and have different sizes
(roll.utils.dynamic_batching)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from evenkeel._text import counted
from evenkeel.drop_in import _shared


def make_mini_batch_iter_for_dynamic_batching(
    data: Any,
    epochs: int,
    ga_steps: int = 1,
    keep_mini_batch: bool = False,
    mini_batch_size: int | None = None,
    pipeline_model_parallel_size: int | None = 1,
    virtual_pipeline_model_parallel_size: int | None = None,
    *,
    strict_reference: bool = False,
) -> Iterator[Any]:
    """Yields the mini-batches of one rank's shard from dynamic_batching_shard, `epochs` times.

    A mini-batch has `ga_steps` micro-batches; with ``keep_mini_batch``, it has `mini_batch_size` samples, and micro-batches that
    cross its boundaries are cut there. With virtual pipeline stages, the micro-batches of such a mini-batch are split until their
    number is a multiple of `pipeline_model_parallel_size`; if it has too few samples for that, the last ones are empty.
    ``meta_info`` of a mini-batch has its own micro_batch_indices, micro_batch_lengths, mini_batch_size and num_micro_batchs.

    Raises InputError if the micro-batches are not contiguous ranges that cover all samples of ``data``.

    ``strict_reference``: raises InputError for a mini-batch with too few samples for the pipeline stages.
    """
    ranges = [(int(begin), int(end)) for begin, end in data.meta_info["global_micro_batch_indices"]]
    lengths = list(data.meta_info["global_micro_batch_lengths"])
    _require_whole(ranges, lengths, _shared.size_of(data))
    if ga_steps < 1:
        _shared.refuse("ga_steps", f"is {ga_steps}; it must be at least 1")
    parts = list(zip(ranges, lengths))
    if keep_mini_batch:
        multiple = (pipeline_model_parallel_size or 1) if virtual_pipeline_model_parallel_size else 1
        groups = [_split_to(multiple, group, strict_reference) for group in _cut_at(mini_batch_size, parts)]
    else:
        groups = [parts[i : i + ga_steps] for i in range(0, len(parts), ga_steps)]
    for _ in range(epochs):
        for group in groups:
            yield _mini_batch(data, group)


def _require_whole(ranges: list[tuple[int, int]], lengths: list[int], num_samples: int) -> None:
    ends = [0, *(end for _, end in ranges)]
    begins = [*(begin for begin, _ in ranges), num_samples]
    if len(lengths) != len(ranges) or begins != ends or any(begin > end for begin, end in ranges):
        _shared.refuse("data.meta_info", f"has micro-batches {ranges} with {counted(len(lengths), 'length')} for "
                       f"{counted(num_samples, 'sample')}",
                       "Give it contiguous ranges that cover the complete local batch, with a length each")


def _cut_at(size: int | None, parts: list[Any]) -> list[list[Any]]:
    """Returns the micro-batches of each mini-batch of ``size`` samples."""
    num_samples = parts[-1][0][1] if parts else 0
    if size is None or size < 1 or num_samples % size != 0:
        _shared.refuse("mini_batch_size", f"is {size}; it must be at least 1 and divide the number of samples, {num_samples}")
    groups: list[list[Any]] = [[] for _ in range(num_samples // size)]
    for (begin, end), length in parts:
        while begin < end:
            border = min(end, (begin // size + 1) * size)
            groups[begin // size].append(((begin, border), length))
            begin = border
    return groups


def _split_to(multiple: int, group: list[Any], strict: bool) -> list[Any]:
    """Splits micro-batches until their number is a multiple of ``multiple``: halves the largest; once each has one sample,
    adds empty ones."""
    while len(group) % multiple != 0:
        sizes = [end - begin for (begin, end), _ in group]
        at = sizes.index(max(sizes))
        (begin, end), length = group[at]
        if end - begin > 1:
            middle = (begin + end) // 2
            group[at : at + 1] = [((begin, middle), length), ((middle, end), length)]
        elif strict:
            _shared.refuse("pipeline_model_parallel_size", f"is {multiple}, which does not divide the "
                           f"{counted(len(group), 'micro-batch', 'micro-batches')} of a "
                           f"mini-batch in which every sample already has its own micro-batch",
                           "Choose a mini_batch_size that is divisible by pipeline_model_parallel_size")
        else:
            last = group[-1][0][1]
            group.append(((last, last), group[-1][1]))
    return group


def _mini_batch(data: Any, group: list[Any]) -> Any:
    first, last = group[0][0][0], group[-1][0][1]
    mini_batch = _shared.select(data, range(first, last))
    mini_batch.meta_info["micro_batch_indices"] = [[begin - first, end - first] for (begin, end), _ in group]
    mini_batch.meta_info["micro_batch_lengths"] = [length for _, length in group]
    mini_batch.meta_info["mini_batch_size"] = last - first
    mini_batch.meta_info["num_micro_batchs"] = len(group)
    return mini_batch


def make_micro_batch_iter_for_dynamic_batching(mini_batch: Any) -> Iterator[Any]:
    """Yields the micro-batches of a mini-batch, each truncated to its own length: columns with as many dimensions as
    "input_ids", and "position_ids", if their last dimension is as wide as that of "input_ids", or one less."""
    ranges, lengths = mini_batch.meta_info["micro_batch_indices"], mini_batch.meta_info["micro_batch_lengths"]
    for (begin, end), length in zip(ranges, lengths):
        micro_batch = _shared.select(mini_batch, range(begin, end))
        ids = micro_batch.batch["input_ids"]
        width, dims = ids.shape[-1], ids.dim()
        for name in list(micro_batch.batch.keys()):
            column = micro_batch.batch[name]
            if (column.dim() == dims or name == "position_ids") and width - column.shape[-1] in (0, 1):
                micro_batch.batch[name] = column[..., : length - (width - column.shape[-1])]
        yield micro_batch


def get_dynamic_batching_loss_scale(data: Any, loss_agg_mode: str) -> float:
    """Returns the factor for the mean over a micro-batch's samples with which Megatron's mean over the micro-batches of a
    mini-batch becomes a mean over its samples. ``data`` is the micro-batch, with the mini-batch's meta_info; the mode can be
    seq-mean-token-sum or seq-mean-token-mean."""
    modes = ("seq-mean-token-sum", "seq-mean-token-mean")
    if loss_agg_mode not in modes:
        _shared.refuse("loss_agg_mode", f"is {loss_agg_mode!r}; with dynamic batching it can be {' or '.join(modes)}")
    ranges = data.meta_info["micro_batch_indices"]
    return len(ranges) * _shared.size_of(data) / (int(ranges[-1][-1]) - int(ranges[0][0]))
