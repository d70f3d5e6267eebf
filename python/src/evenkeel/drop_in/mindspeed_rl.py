"""mindspeed_rl.utils.seqlen_balancing, .remove_padding and .context_parallel, with MindSpeed-RL's names and results.

    from evenkeel.drop_in.mindspeed_rl import rearrange_micro_batches, preprocess_packed_seqs

Lengths are in tokens, and indices count samples from 0. Lists may be lists, tuples, arrays or tensors of integers;
functions return lists of lists of ints. Invalid input raises evenkeel.InputError. Tensors may be on any device; gradients
flow through functions that move them.
"""

from __future__ import annotations

import sys
from collections.abc import MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

from evenkeel._text import counted
from evenkeel.drop_in import _native, _shared
from evenkeel.drop_in.verl import get_reverse_idx, karmarkar_karp

if TYPE_CHECKING:
    import torch

__all__ = [
    "allgather_output_cp_group",
    "allgather_tensor_cp_group",
    "balanced_bin_packing",
    "get_batch_on_this_cp_rank",
    "get_output_allgather_cp_with_pack",
    "get_output_allgather_cp_without_pack",
    "get_reverse_idx",
    "get_ring_degree",
    "get_seqlen_balanced_partitions",
    "get_tensor_allgather_cp_with_pack",
    "get_tensor_allgather_cp_without_pack",
    "heapq_partition",
    "heapq_partition_with_max",
    "karmarkar_karp",
    "postprocess_packed_seqs",
    "preprocess_packed_seqs",
    "rearrange_micro_batches",
]


# Balancing

def heapq_partition(seqlen_list: Sequence[int], k_partitions: int, equal_size: bool) -> list[list[int]]:
    """Partitions indices into `k_partitions` groups of nearly equal sums: in descending order, each value goes to the
    lightest group. With ``equal_size``, groups have equal sizes; their number must divide that of the values."""
    return _native.longest_processing_time(seqlen_list, k_partitions, equal_size, False)


def get_seqlen_balanced_partitions(seqlen_list: Sequence[int], k_partitions: int, equal_size: bool) -> list[list[int]]:
    """Like heapq_partition, with each group's indices ascending. Raises InputError for fewer values than groups."""
    return _native.longest_processing_time(seqlen_list, k_partitions, equal_size, True)


def heapq_partition_with_max(seqlen_list: Sequence[int], k_partitions: int, max_token_len: int) -> list[list[int]]:
    """Like heapq_partition, starting with `k_partitions` groups. A value that would raise a group above `max_token_len`
    closes it and starts another. A value above `max_token_len` is its own group, and may have closed an empty one."""
    return _native.longest_processing_time_with_cap(seqlen_list, k_partitions, max_token_len)


def balanced_bin_packing(seqlen_list: Sequence[int], max_capacity: int) -> list[list[int]]:
    """Packs indices into few groups of at most `max_capacity`: best fit in descending order, then evened out. Raises
    LimitError for a value above it."""
    return _native.balanced_bin_packing(seqlen_list, max_capacity)


def rearrange_micro_batches(
    seqlen_list: Sequence[int],
    max_token_len: int,
    dynamic_max_batch_size: int | None = None,
    dp_group: Any = None,
    *,
    strict_reference: bool = False,
) -> list[list[int]]:
    """Returns the samples of each micro-batch: at most `max_token_len` tokens and `dynamic_max_batch_size` samples each, with
    nearly equal tokens. If torch.distributed is initialized, all ranks of ``dp_group`` (None: the world) have the same number;
    a rank with fewer samples than that has empty ones. Raises LimitError, on every rank, for a sample above `max_token_len`.

    If a multimodal MindSpeed-RL is imported, calls balanced_bin_packing, as MindSpeed-RL does.

    ``strict_reference``: `max_token_len` and `dynamic_max_batch_size` only determine the number of micro-batches.
    """
    mindspeed = sys.modules.get("mindspeed_rl.utils")
    if mindspeed is not None and mindspeed.is_multimodal():
        return balanced_bin_packing(seqlen_list, max_token_len)

    def planner() -> Any:
        if strict_reference and len(seqlen_list) == 0:
            _shared.refuse("seqlen_list", "is empty", "Pass at least one length")
        return _native.mindspeed_micro_batches(seqlen_list, max_token_len, dynamic_max_batch_size)

    return _shared.plan_together(planner, dp_group, together=_shared.is_distributed(), strict=strict_reference)


# Removing padding

def preprocess_packed_seqs(
    input_ids: torch.Tensor,
    labels: torch.Tensor,
    attention_mask_1d: torch.Tensor,
    tp_size: int,
    *,
    strict_reference: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Concatenates padded sequences, each padded with zeros to a multiple of `tp_size` tokens.

    ``input_ids``, ``labels``, ``attention_mask_1d`` are [n, width]; the mask is 1 at tokens. Returns input ids [1, packed],
    position ids [1, packed] int32, which continue through the padding, labels [1, packed], lengths [n] int32, and the
    offsets [n + 1] int32 of the aligned sequences.

    ``strict_reference``: a row with m ones provides its first m columns, regardless of where the ones are.
    """
    import torch

    for name, tensor in (("attention_mask_1d", attention_mask_1d), ("labels", labels)):
        if input_ids.dim() != 2 or tensor.shape != input_ids.shape:
            _shared.refuse(name, f"has the shape {tuple(tensor.shape)}, and input_ids has {tuple(input_ids.shape)}; both must have the "
                           "same shape, [samples, width]")
    lengths = _shared.lengths_of(attention_mask_1d)
    positions = _token_positions(attention_mask_1d, lengths, strict_reference)
    tokens, rows, size, _, ends, _ = _native.packed_rows(lengths, tp_size, 1, 0, None)
    source = positions[torch.from_numpy(tokens).to(positions.device)]
    device = input_ids.device
    cu_seqlens_padded = torch.from_numpy(ends).to(device)
    aligned = cu_seqlens_padded.long().diff()
    position_ids = torch.arange(size, dtype=torch.int32, device=device)
    position_ids -= cu_seqlens_padded[:-1].repeat_interleave(aligned)
    packed = [_shared.move_rows(tensor.flatten(), source, rows, size)[None] for tensor in (input_ids, labels)]
    seqlens_in_batch = torch.tensor(lengths, dtype=torch.int32, device=device)
    return packed[0], position_ids[None], packed[1], seqlens_in_batch, cu_seqlens_padded


def _token_positions(mask: torch.Tensor, lengths: list[int], strict_reference: bool) -> torch.Tensor:
    """Returns the positions of the tokens in a flattened [n, width] tensor."""
    import torch

    if strict_reference:
        columns = torch.arange(mask.shape[1], device=mask.device)
        mask = columns < torch.tensor(lengths, device=mask.device)[:, None]
    return mask.flatten().nonzero()[:, 0]


def postprocess_packed_seqs(
    output: torch.Tensor,
    seqlens_in_batch: torch.Tensor,
    cu_seqlens_padded: torch.Tensor,
    seq_len: int,
    prompt_length: torch.Tensor | None = None,
    *,
    strict_reference: bool = False,
) -> torch.Tensor:
    """Unpacks a model's output for packed sequences [1, packed, ...] to [n, seq_len, ...], with zeros after each sequence.
    Gradients flow. The other arguments are those that preprocess_packed_seqs returns.

    With ``prompt_length`` [n], returns only the rows that predict the response: of a sequence of l tokens with a prompt of
    p, rows p - 1 to l - 2, so that column j belongs to response token j. Without a prompt (p = 0), column 0 is zero, since
    nothing predicts the first token. Raises InputError for a prompt that is longer than its sequence, and for rows that do
    not fit into `seq_len`.

    ``strict_reference``: for a prompt longer than its sequence, returns the whole sequence; for p = 0, returns the row
    before the sequence as column 0, and raises InputError for the first sequence.
    """
    if output.dim() < 2 or output.shape[0] != 1:
        _shared.refuse("output", f"has the shape {tuple(output.shape)}; it must be one packed row")
    lengths = seqlens_in_batch.tolist()
    starts = cu_seqlens_padded.tolist()[:-1]
    if len(starts) != len(lengths):
        _shared.refuse("cu_seqlens_padded", f"has {counted(len(cu_seqlens_padded), 'entry', 'entries')} for "
                       f"{counted(len(lengths), 'sequence')}; it must have {len(lengths) + 1}")
    kept = _kept_rows(lengths, starts, prompt_length, strict_reference)
    for i, (start, (begin, end)) in enumerate(zip(starts, kept)):
        if end - begin > seq_len:
            _shared.refuse("seq_len", f"is {seq_len}, but sequence {i} has {counted(end - begin, 'row')}")
        if start + end > output.shape[1]:
            _shared.refuse("output", f"has {counted(output.shape[1], 'row')}, but sequence {i} ends at row {start + end}")
    source, target = [], []
    for i, (start, (begin, end)) in enumerate(zip(starts, kept)):
        first = begin if strict_reference else max(begin, 0)  # a sequence's first token is not predicted
        source.append((start + first, start + max(first, end)))
        target.append((i * seq_len + first - begin, i * seq_len + max(first, end) - begin))
    rows = _shared.move_rows(output[0], _shared.ranges(source), _shared.ranges(target), len(lengths) * seq_len)
    return rows.reshape(len(lengths), seq_len, *output.shape[2:])


def _kept_rows(lengths: list[int], starts: list[int], prompts: Any, strict_reference: bool) -> list[tuple[int, int]]:
    """Returns [begin, end) of the rows to return from each sequence."""
    if prompts is None:
        return [(0, length) for length in lengths]
    if not strict_reference:
        return _native.prediction_rows(lengths, prompts)
    kept = []
    for length, start, prompt in zip(lengths, starts, prompts.tolist()):
        if prompt == 0 and start == 0 and length > 0:
            _shared.refuse("prompt_length", "is 0 for the first sequence, which has no row in front of it")
        kept.append((prompt - 1, length - 1) if prompt <= length else (0, length))
    return kept


# Context parallelism

def get_ring_degree(megatron_config: Any, *, strict_reference: bool = False) -> int:
    """Returns the number of ranks in a ring: `context_parallel_size` for megatron_cp_algo, 1 for ulysses_cp_algo, and for
    hybrid_cp_algo the size divided by `ulysses_degree_in_cp`, which must divide it.

    ``strict_reference``: raises InputError for a ring of one rank with hybrid_cp_algo.
    """
    degree = int(_cp_of(megatron_config).ring_degree())
    is_hybrid = _algorithm_of(megatron_config) == "hybrid_cp_algo" and megatron_config.context_parallel_size > 1
    if strict_reference and is_hybrid and degree == 1:
        _shared.refuse("ulysses_degree_in_cp", "leaves only one rank per ring")
    return degree


def get_batch_on_this_cp_rank(
    megatron_config: Any,
    batch: MutableMapping[str, Any],
    actual_seq_len: Sequence[int],
    *,
    cp_rank: int | None = None,
    strict_reference: bool = False,
) -> Any:
    """Cuts a batch of [n, s, ...] tensors to this context-parallel rank's columns, in place.

    ``megatron_config``   context_parallel_size, context_parallel_algo, ulysses_degree_in_cp, reset_attention_mask, and
                          cp_attention_mask_type or attention_mask_type
    ``actual_seq_len``    ends of packed sequences, divided by the ring degree; used if each is cut separately:
                          megatron_cp_algo with reset_attention_mask and a causal mask
    ``cp_rank``           by default, the rank in MindSpeed-RL's parallel state

    "attention_mask" and None values are unchanged. Returns (batch, index). The index holds the numbers of the rank's two
    chunks of 2 * size, or its columns if each sequence is cut separately; it is None for the other algorithms. Returns only
    the batch if context_parallel_size is 1. Raises InputError for columns that cannot be cut evenly.

    ``strict_reference``: hybrid_cp_algo does not cut the batch; if each sequence is cut separately, tokens in the middle of
    a sequence that cannot be cut evenly are dropped.
    """
    import torch

    size = megatron_config.context_parallel_size
    if size <= 1:
        return batch
    rank = _cp_rank() if cp_rank is None else cp_rank
    algorithm = _algorithm_of(megatron_config)
    cuts_each = _cuts_each_sequence(megatron_config)
    if strict_reference and algorithm == "hybrid_cp_algo":
        return batch, None
    cut = _cp_of(megatron_config)
    ends = [int(end) for end in actual_seq_len]
    index = None
    for key, values in batch.items():
        if key == "attention_mask" or values is None:
            continue
        rows = values.flatten(0, 1)[None] if cuts_each else values
        if strict_reference and cuts_each:
            columns = torch.tensor(_lossy_columns(size, [end * size for end in ends], rank), dtype=torch.long)
        else:
            columns = torch.from_numpy(cut.columns(rows.shape[1], ends, rank))
        columns = columns.to(values.device)
        held = rows.index_select(1, columns)
        batch[key] = held.reshape(values.shape[0], -1, *values.shape[2:])
        index = columns
    if algorithm != "megatron_cp_algo":
        return batch, None
    if not cuts_each:
        index = torch.tensor([rank, 2 * size - 1 - rank], device=None if index is None else index.device)
    return batch, index


def _lossy_columns(size: int, ends: list[int], rank: int) -> list[int]:
    """Returns chunks `rank` and 2 * size - 1 - rank of each sequence, rounded down, counted from its start and its end."""
    columns: list[int] = []
    start = 0
    for end in ends:
        chunk = (end - start) // (2 * size)
        columns += range(start + rank * chunk, start + (rank + 1) * chunk)
        columns += range(end - (rank + 1) * chunk, end - rank * chunk)
        start = end
    return columns


def _algorithm_of(config: Any) -> str:
    return getattr(config, "context_parallel_algo", "megatron_cp_algo")


def _cuts_each_sequence(config: Any) -> bool:
    kind = getattr(config, "cp_attention_mask_type", None) or getattr(config, "attention_mask_type", "general")
    return (_algorithm_of(config) == "megatron_cp_algo" and bool(getattr(config, "reset_attention_mask", False))
            and kind == "causal")


def _cp_of(config: Any) -> _native.MindSpeedCp:
    return _native.MindSpeedCp(config.context_parallel_size, _algorithm_of(config),
                               getattr(config, "ulysses_degree_in_cp", None) or 1, _cuts_each_sequence(config))


def _parallel_state(argument: str) -> Any:
    """Returns MindSpeed-RL's parallel state, which provides the default of this argument."""
    compute = sys.modules.get("mindspeed_rl.utils.compute")
    if compute is None:
        _shared.refuse(argument, "was not passed, and MindSpeed-RL, which would provide it, is not imported", f"Pass {argument}")
    return compute.get_parallel_state()


def _cp_rank() -> int:
    return int(_parallel_state("cp_rank").get_context_parallel_rank())


def get_output_allgather_cp_with_pack(
    output_orig: torch.Tensor, cp_size: int, index: torch.Tensor | None, *, cp_group: Any = None
) -> torch.Tensor:
    """Gathers the outputs [n, s / cp, ...] of all ranks of a context-parallel group to [n, s, ...], in the column order from
    before get_batch_on_this_cp_rank; if ``index`` is None, in rank order. Gradients flow to this rank's output only.
    ``cp_group`` is by default the group in MindSpeed-RL's parallel state."""
    import torch
    import torch.distributed as distributed

    gathered = _gather(output_orig, cp_size, cp_group)
    if index is None:
        return gathered
    indices = [torch.empty_like(index) for _ in range(cp_size)]
    distributed.all_gather(indices, index.contiguous(), group=_group(cp_group))
    order = torch.cat(indices).argsort()
    rows = gathered.shape[0]
    if rows == 1 or order.numel() == gathered.shape[1]:
        return gathered.index_select(1, order)
    per_rank = gathered.unflatten(1, (cp_size, -1)).transpose(0, 1).flatten(0, 2)  # the split was over all rows
    return per_rank.index_select(0, order).reshape(gathered.shape)


def get_output_allgather_cp_without_pack(
    output_orig: torch.Tensor, cp_size: int, index: Any, *, cp_group: Any = None
) -> torch.Tensor:
    """Like get_output_allgather_cp_with_pack, for two of 2 * cp_size chunks per rank, or one range (``index`` is None)."""
    import torch

    gathered = _gather(output_orig, cp_size, cp_group)
    if index is None:
        return gathered
    chunks = gathered.chunk(2 * cp_size, dim=1)
    held = [chunk for rank in range(cp_size) for chunk in (rank, 2 * cp_size - 1 - rank)]
    return torch.cat([chunks[at] for at in _native.inverse_order(held)], dim=1)


def allgather_tensor_cp_group(cp_tensor: torch.Tensor, cp_size: int, *, cp_group: Any = None) -> torch.Tensor:
    """Concatenates the tensors [n, s / cp, ...] of all ranks of a context-parallel group in rank order: [n, s, ...].
    Gradients flow to this rank's tensor only."""
    return _gather(cp_tensor, cp_size, cp_group)


def allgather_output_cp_group(output_orig: torch.Tensor, cp_size: int, *, cp_group: Any = None) -> torch.Tensor:
    """The same as allgather_tensor_cp_group, under the name in older versions."""
    return _gather(output_orig, cp_size, cp_group)


get_tensor_allgather_cp_with_pack = get_output_allgather_cp_with_pack
get_tensor_allgather_cp_without_pack = get_output_allgather_cp_without_pack


def _group(cp_group: Any) -> Any:
    return cp_group if cp_group is not None else _parallel_state("cp_group").get_context_parallel_group()


def _gather(output: torch.Tensor, cp_size: int, cp_group: Any) -> torch.Tensor:
    import torch
    import torch.distributed as distributed

    group = _group(cp_group)
    outputs = [torch.empty_like(output, memory_format=torch.contiguous_format) for _ in range(cp_size)]
    distributed.all_gather(outputs, output.detach().contiguous(), group=group)
    outputs[distributed.get_rank(group)] = output  # with its gradient
    return torch.cat(outputs, dim=1)
