"""Sequences into packed tensors, aligned and cut for context parallelism, and back.

A tensor of rows is a NumPy array, a torch.Tensor of the CPU or anything with DLPack, of any dtype: [rows, ...]. Ragged rows
are the true rows of all sequences back to back, [num_tokens, ...]; local rows are what one context-parallel rank holds,
[local_rows, ...]. What comes back is of the kind that went in. Nothing is copied but the rows themselves, once, and no lock
is held meanwhile. Arrays that are not contiguous, on another device or require a gradient are refused with InputError.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from evenkeel import _arrays, _core
from evenkeel._core import CpGroup, PackedLayout

__all__ = [
    "CpGroup",
    "PackedLayout",
    "cp_runs",
    "cu_seqlens_on_cp_rank",
    "fill_padding",
    "labels",
    "loss_mask",
    "loss_weights",
    "merge",
    "pack",
    "pack_all",
    "partitioned_indices",
    "position_ids",
    "sequence_alignment",
    "split",
    "unpack",
]


def sequence_alignment(tp: int = 1, cp: CpGroup | int = CpGroup(), *, extra: int = 1) -> int:
    """The multiple that every sequence's length is rounded up to, in tokens: 2 * cp * tp for zigzag, cp * tp for
    contiguous, tp without context parallelism; then the least common multiple with ``extra`` (FP8 kernels like 16)."""
    return _core.sequence_alignment(tp, cp, extra)


def cp_runs(aligned_length: int, cp: CpGroup | int, cp_rank: int) -> list[tuple[int, int]]:
    """The rows of one aligned sequence that a CP rank holds, as (begin, end), in the order in which it holds them.

    >>> cp_runs(8, 2, 0)
    [(0, 2), (6, 8)]
    """
    return _core.cp_runs(aligned_length, cp, cp_rank)


def partitioned_indices(cu_seqlens_padded: Any, cp: CpGroup | int, cp_rank: int) -> Any:
    """Transformer Engine's ``thd_get_partitioned_indices``: the rows of the whole packed tensor that a CP rank holds, in
    local order: [local_rows] int64."""
    return _arrays.handed_out(_core.partitioned_indices(cu_seqlens_padded, cp, cp_rank), cu_seqlens_padded)


def cu_seqlens_on_cp_rank(cu_seqlens: Any, cu_seqlens_padded: Any, cp_size: int, cp_rank: int) -> tuple[Any, Any, Any]:
    """Transformer Engine's ``get_cu_seqlens_on_cp_rank``, zigzag: the true tokens of each sequence on one CP rank as
    cumulative lengths, of the first half of its rows, of the second half, and of all: three of [b + 1] int32."""
    found = _core.cu_seqlens_on_cp_rank(cu_seqlens, cu_seqlens_padded, cp_size, cp_rank)
    first, second, both = (_arrays.handed_out(array, cu_seqlens) for array in found)
    return first, second, both


def pack(
    layout: PackedLayout, values: Any, *, cp_rank: int = 0, pad: Any = 0, out: Any = None, threads: int = 1
) -> Any:
    """Ragged rows [num_tokens, ...] into the packed, cut rows of one CP rank, [local_rows, ...].

    ``values`` are the rows of all sequences back to back, or a list of one tensor a sequence, [length, ...]. ``pad`` fills
    alignment: a number, or one for each element of a row. ``out`` is memory for the result, of its shape and dtype.
    ``threads`` is the most threads that share the work, where megabytes are moved. Raises InputError for another number of
    rows than the layout has tokens.
    """
    if isinstance(values, (list, tuple)):
        return _pack_sequences(layout, values, cp_rank, pad, out, threads)
    rows = _rows_of(values, layout.num_tokens, "values")
    target = _result(rows, (layout.local_rows, *rows.trailing), out)
    _core.pack(layout, cp_rank, rows.array, rows.row_of(pad, "pad"), target.array, threads)
    return target.value


def pack_all(layout: PackedLayout, values: Any, *, pad: Any = 0, threads: int = 1) -> list[Any]:
    """The same for all CP ranks at once, which reads the ragged rows once: one tensor a rank."""
    rows = _rows_of(values, layout.num_tokens, "values")
    targets = [rows.empty(layout.local_rows, *rows.trailing) for _ in range(layout.cp.size)]
    _core.pack_all(layout, rows.array, rows.row_of(pad, "pad"), [target.array for target in targets], threads)
    return [target.value for target in targets]


def unpack(layout: PackedLayout, local: Any, *, out: Any, cp_rank: int = 0, threads: int = 1) -> Any:
    """One CP rank's rows into its share of the ragged rows ``out``, [num_tokens, ...]; other ranks' rows stay untouched,
    so that calling it for every rank merges. Returns ``out``."""
    rows = _rows_of(local, layout.local_rows, "local")
    target = rows.shaped_as(out, (layout.num_tokens, *rows.trailing), "out")
    _core.unpack(layout, cp_rank, rows.array, target.array, threads)
    return target.value


def merge(layout: PackedLayout, locals: Sequence[Any], *, out: Any = None, threads: int = 1) -> Any:
    """The rows of all CP ranks, one tensor a rank, back as ragged rows [num_tokens, ...]: the inverse of pack_all.

    Without context parallelism the packed tensor itself will do for ``locals``.
    """
    if layout.cp.size == 1 and not isinstance(locals, (list, tuple)):
        locals = [locals]
    parts = [_rows_of(local, layout.local_rows, f"locals[{r}]") for r, local in enumerate(locals)]
    if len(parts) != layout.cp.size:
        _core.raise_error("input", "locals", f"there are {len(parts)}; there are {layout.cp.size} context-parallel ranks")
    _require_alike(parts, "locals")
    target = _result(parts[0], (layout.num_tokens, *parts[0].trailing), out)
    _core.merge(layout, [part.array for part in parts], target.array, threads)
    return target.value


def split(layout: PackedLayout, ragged: Any) -> list[Any]:
    """Each sequence's rows of ragged rows [num_tokens, ...]: views of the same memory."""
    if ragged.shape[0] != layout.num_tokens:
        _core.raise_error("input", "ragged", f"has {ragged.shape[0]} rows; the layout has {layout.num_tokens} tokens")
    bounds = layout.cu_seqlens.tolist()
    return [ragged[begin:end] for begin, end in zip(bounds, bounds[1:])]


def fill_padding(layout: PackedLayout, local: Any, *, cp_rank: int = 0, pad: Any = 0) -> Any:
    """Fills only the pad rows of local rows, in place, for tensors that something else fills. Returns ``local``."""
    rows = _rows_of(local, layout.local_rows, "local")
    _core.fill_padding(layout, cp_rank, rows.row_of(pad, "pad"), rows.array)
    return rows.value


def position_ids(layout: PackedLayout, *, cp_rank: int = 0) -> npt.NDArray[np.int64]:
    """Position ids of a CP rank's rows, from 0 in every sequence; they run on through pad rows: [local_rows] int64."""
    return _core.position_ids(layout, cp_rank)


def labels(layout: PackedLayout, tokens: Any, *, cp_rank: int = 0, label_pad: int = -100) -> Any:
    """Labels of a CP rank's rows, [local_rows] int64: the next token of the same sequence, also where another CP rank
    holds it; ``label_pad`` at its end and in pad rows. ``tokens`` are the ragged tokens, [num_tokens] int64."""
    rows = _rows_of(tokens, layout.num_tokens, "tokens")
    target = rows.empty(layout.local_rows, *rows.trailing)
    _core.labels(layout, cp_rank, rows.array, label_pad, target.array)
    return target.value


def loss_mask(layout: PackedLayout, prompt_lengths: Any, *, cp_rank: int = 0) -> Any:
    """Loss mask of a CP rank's rows, [local_rows] float32, shifted as the labels are: 1 where the label is a response
    token. ``prompt_lengths`` has one entry a sequence."""
    return _arrays.handed_out(_core.loss_mask(layout, prompt_lengths, cp_rank), prompt_lengths)


def loss_weights(layout: PackedLayout, token_weights: Any, mask: Any) -> Any:
    """Each row's weight in the loss, [local_rows] float32: its sequence's entry of ``token_weights`` (as a plan's
    micro-batches have them) where ``mask`` is not 0, else 0. Multiply by the rows' losses, sum up, and multiply by the
    micro-batch's scale."""
    weights = np.asarray(token_weights, dtype=np.float64)
    given = _rows_of(mask, layout.local_rows, "mask")
    if given.trailing:
        _core.raise_error("input", "mask", f"has the shape {given.array.shape}; it needs one value a row")
    return _arrays.handed_out(_core.loss_weights(layout, weights, given.array != 0), mask)


def _rows_of(value: Any, count: int, name: str) -> _arrays.Rows:
    rows = _arrays.Rows(value, name)
    if rows.array.shape[0] != count:
        _core.raise_error("input", name, f"has {rows.array.shape[0]} rows; the layout has {count}")
    return rows


def _pack_sequences(
    layout: PackedLayout, sequences: Sequence[Any], cp_rank: int, pad: Any, out: Any, threads: int
) -> Any:
    if len(sequences) != len(layout):
        _core.raise_error("input", "values", f"there are {len(sequences)} sequences; the layout has {len(layout)}")
    if not sequences:
        _core.raise_error("input", "values", "is an empty list, which tells no dtype", "Pass ragged rows")
    parts = [_arrays.Rows(sequence, f"values[{i}]") for i, sequence in enumerate(sequences)]
    _require_alike(parts, "values")
    for i, (part, length) in enumerate(zip(parts, layout.lengths.tolist())):
        if part.array.shape[0] != length:
            _core.raise_error("input", f"values[{i}]", f"has {part.array.shape[0]} rows; the layout has {length}")
    target = _result(parts[0], (layout.local_rows, *parts[0].trailing), out)
    arrays = [part.array for part in parts]
    _core.pack_sequences(layout, cp_rank, arrays, parts[0].row_of(pad, "pad"), target.array, threads)
    return target.value


def _require_alike(parts: Sequence[_arrays.Rows], name: str) -> None:
    """Rows of one dtype and shape, whose bytes can stand in one tensor."""
    first = parts[0]
    for i, part in enumerate(parts):
        if part.dtype != first.dtype or part.trailing != first.trailing:
            _core.raise_error("input", f"{name}[{i}]", f"has rows of {part.trailing} {part.dtype}; the first has rows of "
                              f"{first.trailing} {first.dtype}")


def _result(like: _arrays.Rows, shape: tuple[int, ...], out: Any) -> _arrays.Rows:
    return like.empty(*shape) if out is None else like.shaped_as(out, shape, "out")
