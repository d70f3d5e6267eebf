"""mindspeed_rl.utils.seqlen_balancing, .remove_padding and .context_parallel, with MindSpeed-RL's names and results.

    from evenkeel.drop_in.mindspeed_rl import rearrange_micro_batches, preprocess_packed_seqs

Lengths are in tokens, indices count samples from 0. Lists may be lists, tuples, arrays or tensors of whole numbers; what
is returned are lists of lists of ints. Bad input raises evenkeel.InputError. Tensors may be on any device; gradients
flow through what moves them.
"""

from __future__ import annotations

import sys
from collections.abc import MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

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
    """Indices in `k_partitions` groups of about equal sums: the largest value first, each to the lightest group. With
    ``equal_size`` groups have equally many, which their number must divide."""
    return _native.longest_processing_time(seqlen_list, k_partitions, equal_size, False)


def get_seqlen_balanced_partitions(seqlen_list: Sequence[int], k_partitions: int, equal_size: bool) -> list[list[int]]:
    """heapq_partition with each group's indices ascending. InputError for fewer values than groups."""
    return _native.longest_processing_time(seqlen_list, k_partitions, equal_size, True)


def heapq_partition_with_max(seqlen_list: Sequence[int], k_partitions: int, max_token_len: int) -> list[list[int]]:
    """heapq_partition from `k_partitions` groups on; one that a value would lift above `max_token_len` is closed, and
    another begins with that value. A value above it is a group of its own, and may have closed an empty one."""
    return _native.longest_processing_time_with_cap(seqlen_list, k_partitions, max_token_len)


def balanced_bin_packing(seqlen_list: Sequence[int], max_capacity: int) -> list[list[int]]:
    """Indices in few groups of at most `max_capacity`: best fit by falling value, then evened out. Raises LimitError for a
    value above it."""
    return _native.balanced_bin_packing(seqlen_list, max_capacity)


def rearrange_micro_batches(
    seqlen_list: Sequence[int],
    max_token_len: int,
    dynamic_max_batch_size: int | None = None,
    dp_group: Any = None,
    *,
    strict_reference: bool = False,
) -> list[list[int]]:
    """The samples of each micro-batch: of at most `max_token_len` tokens and `dynamic_max_batch_size` samples, with about
    equal tokens. Where torch.distributed is initialized, all ranks of ``dp_group`` (None: of the world) have equally many;
    one with fewer samples than that has empty ones. Raises LimitError, on every rank, for a sample above `max_token_len`.

    Beside a multimodal MindSpeed-RL it is balanced_bin_packing, as there.

    ``strict_reference``: `max_token_len` and `dynamic_max_batch_size` only decide how many micro-batches there are.
    """
    mindspeed = sys.modules.get("mindspeed_rl.utils")
    if mindspeed is not None and mindspeed.is_multimodal():
        return balanced_bin_packing(seqlen_list, max_token_len)

    def planner() -> Any:
        if strict_reference and len(seqlen_list) == 0:
            _shared.refuse("seqlen_list", "is empty")
        return _native.mindspeed_micro_batches(seqlen_list, max_token_len, dynamic_max_batch_size)

    return _shared.planned_together(planner, dp_group, together=_shared.is_distributed(), strict=strict_reference)


# Removing padding

def preprocess_packed_seqs(
    input_ids: torch.Tensor,
    labels: torch.Tensor,
    attention_mask_1d: torch.Tensor,
    tp_size: int,
    *,
    strict_reference: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Padded sequences back to back, each aligned to a multiple of `tp_size` tokens with zeros.

    ``input_ids``, ``labels``, ``attention_mask_1d`` are [n, width]; the mask is 1 where a token stands. Returns input ids
    [1, packed], position ids [1, packed] int32, which run on through what is filled up, labels [1, packed], lengths [n]
    int32, and [n + 1] int32 of where each aligned sequence begins and ends.

    ``strict_reference``: of a row with m ones, the first m columns are taken, wherever the ones stand.
    """
    import torch

    for name, tensor in (("attention_mask_1d", attention_mask_1d), ("labels", labels)):
        if input_ids.dim() != 2 or tensor.shape != input_ids.shape:
            _shared.refuse(name, f"has the shape {tuple(tensor.shape)}, but input_ids has the shape {tuple(input_ids.shape)}")
    lengths = _shared.lengths_of(attention_mask_1d)
    positions = _token_positions(attention_mask_1d, lengths, strict_reference)
    tokens, rows, size, _, ends, _ = _native.packed_rows(lengths, tp_size, 1, 0, None)
    source = positions[torch.from_numpy(tokens).to(positions.device)]
    device = input_ids.device
    cu_seqlens_padded = torch.from_numpy(ends).to(device)
    aligned = cu_seqlens_padded.long().diff()
    position_ids = torch.arange(size, dtype=torch.int32, device=device)
    position_ids -= cu_seqlens_padded[:-1].repeat_interleave(aligned)
    packed = [_shared.moved(tensor.flatten(), source, rows, size)[None] for tensor in (input_ids, labels)]
    seqlens_in_batch = torch.tensor(lengths, dtype=torch.int32, device=device)
    return packed[0], position_ids[None], packed[1], seqlens_in_batch, cu_seqlens_padded


def _token_positions(mask: torch.Tensor, lengths: list[int], strict_reference: bool) -> torch.Tensor:
    """The positions of the tokens in a flattened [n, width] tensor."""
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
    """What a model gave for packed sequences [1, packed, ...], as [n, seq_len, ...] with zeros behind each sequence.
    Gradients flow. The other arguments are as preprocess_packed_seqs gives them.

    With ``prompt_length`` [n] only the rows that predict the response: of a sequence of l tokens with a prompt of p, rows
    p - 1 to l - 2, so that column j belongs to response token j. Without a prompt (p = 0) column 0 is zero, since
    nothing predicts the first token. Raises InputError for a prompt that is longer than its sequence, and for rows that do
    not fit into `seq_len`.

    ``strict_reference``: a prompt longer than its sequence leaves the whole sequence; one of 0 takes the row in front of
    it, and raises InputError for the first.
    """
    if output.dim() < 2 or output.shape[0] != 1:
        _shared.refuse("output", f"has the shape {tuple(output.shape)}; one packed row is needed")
    lengths = seqlens_in_batch.tolist()
    starts = cu_seqlens_padded.tolist()[:-1]
    if len(starts) != len(lengths):
        _shared.refuse("cu_seqlens_padded", f"has {len(starts) + 1} entries for {len(lengths)} sequences")
    kept = _kept_rows(lengths, starts, prompt_length, strict_reference)
    for i, (start, (begin, end)) in enumerate(zip(starts, kept)):
        if end - begin > seq_len:
            _shared.refuse("seq_len", f"{seq_len} columns do not hold the {end - begin} rows of sequence {i}")
        if start + end > output.shape[1]:
            _shared.refuse("output", f"has {output.shape[1]} rows; sequence {i} ends at {start + end}")
    source, target = [], []
    for i, (start, (begin, end)) in enumerate(zip(starts, kept)):
        first = begin if strict_reference else max(begin, 0)  # a sequence's first token is not predicted
        source.append((start + first, start + max(first, end)))
        target.append((i * seq_len + first - begin, i * seq_len + max(first, end) - begin))
    rows = _shared.moved(output[0], _shared.ranges(source), _shared.ranges(target), len(lengths) * seq_len)
    return rows.reshape(len(lengths), seq_len, *output.shape[2:])


def _kept_rows(lengths: list[int], starts: list[int], prompts: Any, strict_reference: bool) -> list[tuple[int, int]]:
    """[begin, end) of the rows to return from each sequence."""
    if prompts is None:
        return [(0, length) for length in lengths]
    if not strict_reference:
        return _native.prediction_rows(lengths, prompts)
    kept = []
    for length, start, prompt in zip(lengths, starts, prompts.tolist()):
        if prompt == 0 and start == 0 and length > 0:
            _shared.refuse("prompt_length", "is 0 for the first sequence, with no row in front of it")
        kept.append((prompt - 1, length - 1) if prompt <= length else (0, length))
    return kept


# Context parallelism

def get_ring_degree(megatron_config: Any, *, strict_reference: bool = False) -> int:
    """How many ranks a ring has: `context_parallel_size` for megatron_cp_algo, 1 for ulysses_cp_algo, and for
    hybrid_cp_algo the size divided by `ulysses_degree_in_cp`, which must divide it.

    ``strict_reference``: a ring of one rank is refused for hybrid_cp_algo.
    """
    degree = int(_cp_of(megatron_config).ring_degree())
    is_hybrid = _algorithm_of(megatron_config) == "hybrid_cp_algo" and megatron_config.context_parallel_size > 1
    if strict_reference and is_hybrid and degree == 1:
        _shared.refuse("ulysses_degree_in_cp", "leaves rings of one rank")
    return degree


def get_batch_on_this_cp_rank(
    megatron_config: Any,
    batch: MutableMapping[str, Any],
    actual_seq_len: Sequence[int],
    *,
    cp_rank: int | None = None,
    strict_reference: bool = False,
) -> Any:
    """This context-parallel rank's columns of a batch of [n, s, ...] tensors, and the index of what it has.

    ``megatron_config``   context_parallel_size, context_parallel_algo, ulysses_degree_in_cp, reset_attention_mask, and
                          cp_attention_mask_type or attention_mask_type
    ``actual_seq_len``    where packed sequences end, divided by the ring degree; used where each is cut on its own:
                          megatron_cp_algo with reset_attention_mask and a causal mask
    ``cp_rank``           by default what MindSpeed-RL's parallel state says

    Changes the batch in place; "attention_mask" and None stay. Returns (batch, index): the numbers of the rank's two
    chunks of 2 * size, or of its columns where each sequence is cut on its own, None for the other algorithms. The batch
    alone where context_parallel_size is 1. Raises InputError for a cut that does not come out even.

    ``strict_reference``: hybrid_cp_algo leaves the batch uncut, and where each sequence is cut on its own, the tokens in
    the middle of one whose length does not come out even are left out.
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
    """Chunks `rank` and 2 * size - 1 - rank of each sequence, rounded down, counted from its begin and from its end."""
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


def _parallel_state() -> Any:
    compute = sys.modules.get("mindspeed_rl.utils.compute")
    if compute is None:
        _shared.refuse("context parallelism", "is used, but this rank's position is not known", "Pass cp_rank and cp_group")
    return compute.get_parallel_state()


def _cp_rank() -> int:
    return int(_parallel_state().get_context_parallel_rank())


def get_output_allgather_cp_with_pack(
    output_orig: torch.Tensor, cp_size: int, index: torch.Tensor | None, *, cp_group: Any = None
) -> torch.Tensor:
    """The outputs [n, s / cp, ...] of all ranks of a context-parallel group as one [n, s, ...], in the order of columns
    that get_batch_on_this_cp_rank cut; with ``index`` None they stand rank after rank. Gradients flow to this rank's own.
    ``cp_group`` is by default what MindSpeed-RL's parallel state says."""
    import torch
    import torch.distributed as distributed

    gathered = _gathered(output_orig, cp_size, cp_group)
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
    """The same where each rank has two of 2 * cp_size chunks (``index`` not None), or one run (None)."""
    import torch

    gathered = _gathered(output_orig, cp_size, cp_group)
    if index is None:
        return gathered
    chunks = gathered.chunk(2 * cp_size, dim=1)
    held = [chunk for rank in range(cp_size) for chunk in (rank, 2 * cp_size - 1 - rank)]
    return torch.cat([chunks[at] for at in _native.inverse_order(held)], dim=1)


def allgather_tensor_cp_group(cp_tensor: torch.Tensor, cp_size: int, *, cp_group: Any = None) -> torch.Tensor:
    """The tensors [n, s / cp, ...] of all ranks of a context-parallel group, rank after rank: [n, s, ...]. Gradients flow to
    this rank's own."""
    return _gathered(cp_tensor, cp_size, cp_group)


def allgather_output_cp_group(output_orig: torch.Tensor, cp_size: int, *, cp_group: Any = None) -> torch.Tensor:
    """As allgather_tensor_cp_group, under the name of older versions."""
    return _gathered(output_orig, cp_size, cp_group)


get_tensor_allgather_cp_with_pack = get_output_allgather_cp_with_pack
get_tensor_allgather_cp_without_pack = get_output_allgather_cp_without_pack


def _group(cp_group: Any) -> Any:
    return cp_group if cp_group is not None else _parallel_state().get_context_parallel_group()


def _gathered(output: torch.Tensor, cp_size: int, cp_group: Any) -> torch.Tensor:
    import torch
    import torch.distributed as distributed

    group = _group(cp_group)
    outputs = [torch.empty_like(output, memory_format=torch.contiguous_format) for _ in range(cp_size)]
    distributed.all_gather(outputs, output.detach().contiguous(), group=group)
    outputs[distributed.get_rank(group)] = output  # with its gradient
    return torch.cat(outputs, dim=1)
