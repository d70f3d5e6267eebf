"""Packs sequences into tensors, aligned and cut for context parallelism, and unpacks them.

A tensor of rows is a NumPy array, a torch.Tensor on the CPU or any object with DLPack, of any dtype: [rows, ...]. Ragged rows
are the concatenated true rows of all sequences, [num_tokens, ...]; local rows are those of one context-parallel rank,
[local_rows, ...]. Results have the type of the arguments. Only the rows themselves are copied, once, without holding a lock.
Arrays that are not contiguous, are on another device or require a gradient raise InputError.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from evenkeel import _arrays, _c
from evenkeel import _prototypes as c
from evenkeel._c import lib
from evenkeel._text import counted, describe_count

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

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

_LAYOUTS = {"zigzag": c.EVENKEEL_ZIGZAG, "contiguous": c.EVENKEEL_CONTIGUOUS}


class CpGroup:
    """The ranks of context parallelism, and how they cut a sequence.

    'zigzag': 2 * size equal chunks, of which rank r takes chunks r and 2 * size - 1 - r (Megatron, Transformer Engine).
    'contiguous': size equal chunks in order (Ulysses).
    """

    __slots__ = ("_size", "_layout")

    def __init__(self, size: int = 1, layout: str = "zigzag") -> None:
        self._size, self._layout = _c.int32(size), layout
        if self._size < 1:
            _c.raise_error("input", "context-parallel size", f"is {self._size}; it must be at least 1")
        _c.value_of(_LAYOUTS, layout, "layout")

    @property
    def size(self) -> int:
        return self._size

    @property
    def layout(self) -> str:
        return self._layout

    @property
    def chunks(self) -> int:
        """Number of equal chunks into which a sequence is cut."""
        return 2 * self._size if self._layout == "zigzag" and self._size > 1 else self._size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CpGroup) and (self._size, self._layout) == (other._size, other._layout)

    def __hash__(self) -> int:
        return hash((self._size, self._layout))

    def __repr__(self) -> str:
        return f"CpGroup({self._size}, '{self._layout}')"

    def __reduce__(self) -> tuple[Any, ...]:
        return CpGroup, (self._size, self._layout)

    def _numbers(self) -> tuple[int, int]:
        return self._size, _LAYOUTS[self._layout]


def _group_of(cp: CpGroup | int) -> CpGroup:
    return cp if isinstance(cp, CpGroup) else CpGroup(cp)


class PackedLayout:
    """The positions of b sequences in one packed micro-batch.

    Sequences are concatenated; each is aligned and cut over the context-parallel ranks separately. ``lengths`` are true lengths
    in tokens, which are rounded up to multiples of ``alignment``, by default what tp and cp need: 2 * cp * tp for zigzag. ``cp``
    is a CpGroup, or the size of a zigzag one. ``aligned_lengths`` gives each sequence's aligned length instead.

    Raises InputError for a negative length or an alignment that cannot be cut evenly, LimitError above 2**31 - 1 rows.
    Immutable: the arrays that it returns are copies.
    """

    __slots__ = ("_cp", "_true", "_padded", "_max_seqlen", "_struct")

    def __init__(
        self,
        lengths: Any,
        *,
        alignment: int | None = None,
        cp: CpGroup | int = CpGroup(),
        tp: int = 1,
        aligned_lengths: Any = None,
    ) -> None:
        group, numbers = _group_of(cp), _arrays.integers(lengths, "lengths")
        aligned = None if aligned_lengths is None else _arrays.integers(aligned_lengths, "aligned_lengths")
        multiple = sequence_alignment(tp, group) if alignment is None else _c.int64(alignment)
        if aligned is not None and len(aligned) != len(numbers):
            _c.raise_error("input", "packed micro-batch", f"has {counted(len(numbers), 'length')} but "
                           f"{counted(len(aligned), 'aligned length')}")
        true, padded = np.empty(len(numbers) + 1, np.int32), np.empty(len(numbers) + 1, np.int32)
        longest = ctypes.c_int32()
        self._set(group, true, padded, multiple)
        lib.evenkeel_layout_fill(_c.address(numbers), None if aligned is None else _c.address(aligned), len(numbers), multiple,
                                 *group._numbers(), self._struct.cu_seqlens, self._struct.cu_seqlens_padded, ctypes.byref(longest))
        self._max_seqlen = longest.value

    def _set(self, cp: CpGroup, true: Int32s, padded: Int32s, alignment: int) -> None:
        self._cp, self._true, self._padded = cp, true, padded
        self._struct = c.evenkeel_layout(len(true) - 1, _c.address(true), _c.address(padded), alignment, *cp._numbers(), None)

    @classmethod
    def _of(cls, cp: CpGroup, true: Int32s, padded: Int32s, alignment: int, max_seqlen: int) -> PackedLayout:
        layout = cls.__new__(cls)
        layout._set(cp, true, padded, alignment)
        layout._max_seqlen = max_seqlen
        return layout

    def __len__(self) -> int:
        return len(self._true) - 1

    @property
    def cp(self) -> CpGroup:
        return self._cp

    @property
    def alignment(self) -> int:
        """The alignment in tokens."""
        return int(self._struct.alignment)

    @property
    def lengths(self) -> Int64s:
        """True lengths: [b] int64."""
        return np.diff(self._true).astype(np.int64)

    @property
    def aligned_lengths(self) -> Int64s:
        """Aligned lengths over the whole CP group: [b] int64."""
        return np.diff(self._padded).astype(np.int64)

    @property
    def cu_seqlens(self) -> Int32s:
        """Prefix sums of true lengths: [b + 1] int32."""
        return self._true.copy()

    @property
    def cu_seqlens_padded(self) -> Int32s:
        """Prefix sums of aligned lengths over the whole CP group: [b + 1] int32."""
        return self._padded.copy()

    @property
    def max_seqlen(self) -> int:
        """The longest aligned length."""
        return self._max_seqlen

    @property
    def max_length(self) -> int:
        """The longest true length."""
        return int(np.diff(self._true).max(initial=0))

    @property
    def num_rows(self) -> int:
        """Rows over the whole CP group."""
        return int(self._padded[-1])

    @property
    def num_tokens(self) -> int:
        """True tokens over the whole CP group."""
        return int(self._true[-1])

    @property
    def local_rows(self) -> int:
        """Rows that each CP rank holds."""
        return self.num_rows // self._cp.size

    def local_range(self, sequence: int) -> slice:
        """Returns the rows of a sequence in each CP rank's tensors, as a slice."""
        at = _arrays.checked_index(sequence, len(self), "sequence")
        return slice(int(self._padded[at]) // self._cp.size, int(self._padded[at + 1]) // self._cp.size, 1)

    def padded_to(self, rows: int) -> PackedLayout:
        """Returns this layout extended to ``rows`` rows by a longer aligned length of the last sequence. Raises InputError if that
        would cut rows off, or add rows that are not a multiple of the alignment."""
        padded, longest = np.empty_like(self._padded), ctypes.c_int32()
        lib.evenkeel_layout_pad_to(ctypes.byref(self._struct), _c.int64(rows), _c.address(padded), ctypes.byref(longest))
        return PackedLayout._of(self._cp, self._true, padded, self.alignment, longest.value)

    def runs(self, cp_rank: int = 0) -> list[tuple[int, int, int, int]]:
        """Returns every run of true tokens of a CP rank as (sequence, begin, end, local row), in local order."""
        return [(sequence, begin, end, local) for sequence, begin, end, local in self._runs(cp_rank).tolist()]

    def _runs(self, cp_rank: int) -> Int64s:
        """Like runs(), as an array [runs, 4]."""
        return _arrays.named_arrays(lib.evenkeel_layout_runs, ctypes.byref(self._struct), _c.int32(cp_rank))["runs"]

    def __eq__(self, other: object) -> bool:
        return (isinstance(other, PackedLayout) and self._cp == other._cp and self.alignment == other.alignment
                and self._max_seqlen == other._max_seqlen and np.array_equal(self._true, other._true)
                and np.array_equal(self._padded, other._padded))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (f"PackedLayout({len(self)} sequences, {self.num_tokens} tokens in {self.num_rows} rows, "
                f"alignment {self.alignment}, {self._cp!r})")

    def __reduce__(self) -> tuple[Any, ...]:
        return PackedLayout._of, (self._cp, self._true, self._padded, self.alignment, self._max_seqlen)


def sequence_alignment(tp: int = 1, cp: CpGroup | int = CpGroup(), *, extra: int = 1) -> int:
    """Returns the multiple to which every sequence's length is rounded up, in tokens: 2 * cp * tp for zigzag, cp * tp for
    contiguous, tp without context parallelism; then the least common multiple with ``extra``, such as 16 for FP8 kernels."""
    return _alignment_of(_c.int32(tp), *_group_of(cp)._numbers(), _c.int64(extra))


@functools.lru_cache
def _alignment_of(tp: int, cp_size: int, cp_layout: int, extra: int) -> int:
    alignment = ctypes.c_int64()
    lib.evenkeel_sequence_alignment(tp, cp_size, cp_layout, extra, ctypes.byref(alignment))
    return alignment.value


def cp_runs(aligned_length: int, cp: CpGroup | int, cp_rank: int) -> list[tuple[int, int]]:
    """Returns the rows of one aligned sequence that a CP rank holds, as (begin, end), in local order.

    >>> cp_runs(8, 2, 0)
    [(0, 2), (6, 8)]
    """
    bounds, count = (ctypes.c_int64 * 4)(), ctypes.c_int64()
    lib.evenkeel_cp_runs(_c.int64(aligned_length), *_group_of(cp)._numbers(), _c.int32(cp_rank), bounds, ctypes.byref(count))
    return [(bounds[2 * i], bounds[2 * i + 1]) for i in range(count.value)]


def partitioned_indices(cu_seqlens_padded: Any, cp: CpGroup | int, cp_rank: int) -> Any:
    """Transformer Engine's ``thd_get_partitioned_indices``: returns the rows of the whole packed tensor that a CP rank holds,
    in local order: [local_rows] int64."""
    sums, group = _arrays.small_integers_of(cu_seqlens_padded, "cu_seqlens_padded"), _group_of(cp)
    indices = np.empty(max(0, int(sums[-1])) // group.size if len(sums) else 0, np.int64)
    lib.evenkeel_partitioned_indices(_c.address(sums), len(sums), *group._numbers(), _c.int32(cp_rank), _c.address(indices))
    return _arrays.convert_like(indices, cu_seqlens_padded)


def cu_seqlens_on_cp_rank(cu_seqlens: Any, cu_seqlens_padded: Any, cp_size: int, cp_rank: int) -> tuple[Any, Any, Any]:
    """Transformer Engine's ``get_cu_seqlens_on_cp_rank``, zigzag: returns cumulative numbers of true tokens of each sequence on
    one CP rank, in the first half of its rows, in the second half, and in both: three arrays [b + 1] int32."""
    true, padded = (_arrays.small_integers_of(sums, name) for sums, name in (
        (cu_seqlens, "cu_seqlens"), (cu_seqlens_padded, "cu_seqlens_padded")))
    if len(true) != len(padded):
        _c.raise_error("input", "cu_seqlens", f"has {counted(len(true), 'entry', 'entries')}, but cu_seqlens_padded has {len(padded)}")
    found = [np.empty_like(true) for _ in range(3)]
    lib.evenkeel_cu_seqlens_on_cp_rank(_c.address(true), _c.address(padded), len(true), _c.int32(cp_size), _c.int32(cp_rank),
                                       *map(_c.address, found))
    first, second, both = (_arrays.convert_like(array, cu_seqlens) for array in found)
    return first, second, both


def pack(
    layout: PackedLayout, values: Any, *, cp_rank: int = 0, pad: Any = 0, out: Any = None, threads: int = 1
) -> Any:
    """Packs ragged rows [num_tokens, ...] and returns the rows of one CP rank, [local_rows, ...].

    ``values`` are the concatenated rows of all sequences, or a list with one tensor per sequence, [length, ...]. ``pad`` fills
    pad rows: a number, or one for each element of a row. ``out`` is memory for the result, of its shape and dtype.
    ``threads`` is the maximum number of threads that share the work, if megabytes are moved. Raises InputError if the number
    of rows is not that of the layout's tokens.
    """
    if isinstance(values, (list, tuple)):
        return _pack_sequences(layout, values, cp_rank, pad, out, threads)
    rows = _rows_of(values, layout.num_tokens, "values")
    target = _result(rows, (layout.local_rows, *rows.trailing), out)
    pad_row = rows.row_of(pad, "pad")
    lib.evenkeel_pack_rows(ctypes.byref(layout._struct), _c.int32(cp_rank), _arrays.readable(rows.array, "values"),
                           _arrays.readable(pad_row, "pad"),
                           _arrays.writable(target.array, "out"), _c.int64(threads))
    return target.value


def pack_all(layout: PackedLayout, values: Any, *, pad: Any = 0, threads: int = 1) -> list[Any]:
    """Like pack(), for all CP ranks at once, reading the ragged rows only once. Returns one tensor per rank."""
    rows = _rows_of(values, layout.num_tokens, "values")
    targets = [rows.empty(layout.local_rows, *rows.trailing) for _ in range(layout.cp.size)]
    pad_row, buffers = rows.row_of(pad, "pad"), _buffers(_arrays.writable(target.array, "out") for target in targets)
    lib.evenkeel_pack_all_ranks(ctypes.byref(layout._struct), _arrays.readable(rows.array, "values"), _arrays.readable(pad_row, "pad"), buffers,
                                len(buffers), _c.int64(threads))
    return [target.value for target in targets]


def unpack(layout: PackedLayout, local: Any, *, out: Any, cp_rank: int = 0, threads: int = 1) -> Any:
    """Copies one CP rank's rows to their positions in the ragged rows ``out``, [num_tokens, ...]. Other ranks' rows are
    unchanged, so calling it for every rank merges them. Returns ``out``."""
    rows = _rows_of(local, layout.local_rows, "local")
    target = rows.shaped_as(out, (layout.num_tokens, *rows.trailing), "out")
    lib.evenkeel_unpack_rows(ctypes.byref(layout._struct), _c.int32(cp_rank), _arrays.readable(rows.array, "local"),
                             _arrays.writable(target.array, "out"), _c.int64(threads))
    return target.value


def merge(layout: PackedLayout, locals: Sequence[Any], *, out: Any = None, threads: int = 1) -> Any:
    """Merges the rows of all CP ranks, one tensor per rank, into ragged rows [num_tokens, ...]: the inverse of pack_all.

    Without context parallelism, ``locals`` may be the packed tensor itself.
    """
    if layout.cp.size == 1 and not isinstance(locals, (list, tuple)):
        locals = [locals]
    parts = [_rows_of(local, layout.local_rows, f"locals[{r}]") for r, local in enumerate(locals)]
    if len(parts) != layout.cp.size:
        _c.raise_error("input", "locals", f"has {counted(len(parts), 'tensor')} for {counted(layout.cp.size, 'context-parallel rank')}")
    _require_alike(parts, "locals")
    target = _result(parts[0], (layout.num_tokens, *parts[0].trailing), out)
    buffers = _buffers(_arrays.readable(part.array, "locals") for part in parts)
    lib.evenkeel_unpack_all_ranks(ctypes.byref(layout._struct), buffers, len(buffers), _arrays.writable(target.array, "out"), _c.int64(threads))
    return target.value


def split(layout: PackedLayout, ragged: Any) -> list[Any]:
    """Splits ragged rows [num_tokens, ...] into those of each sequence, which are views of the same memory."""
    if ragged.shape[0] != layout.num_tokens:
        _c.raise_error("input", "ragged", f"has {counted(ragged.shape[0], 'row')}; the layout has {counted(layout.num_tokens, 'token')}")
    bounds = layout.cu_seqlens.tolist()
    return [ragged[begin:end] for begin, end in zip(bounds, bounds[1:])]


def fill_padding(layout: PackedLayout, local: Any, *, cp_rank: int = 0, pad: Any = 0) -> Any:
    """Fills only the pad rows of local rows, in place, for tensors that other code fills. Returns ``local``."""
    rows = _rows_of(local, layout.local_rows, "local")
    pad_row = rows.row_of(pad, "pad")
    lib.evenkeel_fill_pad_rows(ctypes.byref(layout._struct), _c.int32(cp_rank), _arrays.readable(pad_row, "pad"),
                               _arrays.writable(rows.array, "local"))
    return rows.value


def position_ids(layout: PackedLayout, *, cp_rank: int = 0) -> npt.NDArray[np.int64]:
    """Returns position ids of a CP rank's rows, [local_rows] int64: from 0 in every sequence, continuing through pad rows."""
    ids = np.empty(layout.local_rows, np.int64)
    lib.evenkeel_position_ids(ctypes.byref(layout._struct), _c.int32(cp_rank), _c.address(ids))
    return ids


def labels(layout: PackedLayout, tokens: Any, *, cp_rank: int = 0, label_pad: int = -100) -> Any:
    """Returns labels of a CP rank's rows, [local_rows] int64: the next token of the same sequence, even if another CP rank
    holds it; ``label_pad`` at its end and in pad rows. ``tokens`` are the ragged tokens, [num_tokens] int64."""
    rows = _rows_of(tokens, layout.num_tokens, "tokens")
    target = rows.empty(layout.local_rows, *rows.trailing)
    for part, name in ((rows, "tokens"), (target, "out")):
        if part.array.dtype != np.int64:
            _c.raise_error("input", name, f"has the dtype {str(part.dtype)!r}; it must be int64",
                           "Convert it: x.astype('int64') in NumPy, x.to(torch.int64) in PyTorch")
    tokens_in, labels_out = _arrays.readable(rows.array, "tokens"), _arrays.writable(target.array, "out")
    lib.evenkeel_labels(ctypes.byref(layout._struct), _c.int32(cp_rank), tokens_in.data, rows.array.size, _c.int64(label_pad), labels_out.data)
    return target.value


def loss_mask(layout: PackedLayout, prompt_lengths: Any, *, cp_rank: int = 0) -> Any:
    """Returns the loss mask of a CP rank's rows, [local_rows] float32, shifted as the labels are: 1 if the label is a response
    token. ``prompt_lengths`` has one entry per sequence."""
    prompts, mask = _arrays.integers(prompt_lengths, "prompt_lengths"), np.empty(layout.local_rows, np.float32)
    lib.evenkeel_loss_mask(ctypes.byref(layout._struct), _c.int32(cp_rank), _c.address(prompts), len(prompts), _c.address(mask))
    return _arrays.convert_like(mask, prompt_lengths)


def loss_weights(layout: PackedLayout, token_weights: Any, mask: Any) -> Any:
    """Returns each row's weight in the loss, [local_rows] float32: its sequence's entry of ``token_weights`` (as in a plan's
    micro-batches) if ``mask`` is nonzero, otherwise 0. Multiply by the rows' losses, add them up, and multiply by the
    micro-batch's scale."""
    by_sequence = np.ascontiguousarray(token_weights, dtype=np.float64)
    given = _rows_of(mask, layout.local_rows, "mask")
    if given.trailing:
        _c.raise_error("input", "mask", f"has the shape {given.array.shape}; it must have one value per row")
    is_set, weights = given.array != 0, np.empty(layout.local_rows, np.float32)
    lib.evenkeel_loss_weights(ctypes.byref(layout._struct), _c.address(by_sequence), by_sequence.size, _c.address(is_set),
                              is_set.size, _c.address(weights))
    return _arrays.convert_like(weights, mask)


def _rows_of(value: Any, count: int, name: str) -> _arrays.Rows:
    rows = _arrays.Rows(value, name)
    if rows.array.shape[0] != count:
        _c.raise_error("input", name, f"has {counted(rows.array.shape[0], 'row')}; it must have {count}")
    return rows


def _pack_sequences(
    layout: PackedLayout, sequences: Sequence[Any], cp_rank: int, pad: Any, out: Any, threads: int
) -> Any:
    if len(sequences) != len(layout):
        _c.raise_error("input", "values", f"{describe_count(len(sequences), 'sequence')}, but the layout has {len(layout)}")
    if not sequences:
        _c.raise_error("input", "values", "is an empty list, which has no dtype", "Pass an empty array or tensor instead")
    parts = [_arrays.Rows(sequence, f"values[{i}]") for i, sequence in enumerate(sequences)]
    _require_alike(parts, "values")
    for i, (part, length) in enumerate(zip(parts, layout.lengths.tolist())):
        if part.array.shape[0] != length:
            _c.raise_error("input", f"values[{i}]", f"has {counted(part.array.shape[0], 'row')}; sequence {i} of the layout has "
                           f"{counted(length, 'token')}")
    target = _result(parts[0], (layout.local_rows, *parts[0].trailing), out)
    buffers = _buffers(_arrays.readable(part.array, f"values[{i}]") for i, part in enumerate(parts))
    pad_row = parts[0].row_of(pad, "pad")
    lib.evenkeel_pack_sequences(ctypes.byref(layout._struct), _c.int32(cp_rank), buffers, len(buffers), _arrays.readable(pad_row, "pad"),
                                _arrays.writable(target.array, "out"), _c.int64(threads))
    return target.value


def _buffers(rows: Iterable[Any]) -> Any:
    """Returns an array of evenkeel_rows."""
    every = list(rows)
    return (c.evenkeel_rows * len(every))(*every)


def _require_alike(parts: Sequence[_arrays.Rows], name: str) -> None:
    """Requires rows of one dtype and shape, which can be stored in one tensor."""
    first = parts[0]
    for i, part in enumerate(parts):
        if part.dtype != first.dtype or part.trailing != first.trailing:
            _c.raise_error("input", f"{name}[{i}]", f"has rows of shape {part.trailing} and type {part.dtype}; the first has rows of shape "
                              f"{first.trailing} and type {first.dtype}", "Give all entries the same row shape and dtype")


def _result(like: _arrays.Rows, shape: tuple[int, ...], out: Any) -> _arrays.Rows:
    return like.empty(*shape) if out is None else like.shaped_as(out, shape, "out")
