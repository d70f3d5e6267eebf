"""Sequences into packed tensors, aligned and cut for context parallelism, and back.

A tensor of rows is a NumPy array, a torch.Tensor of the CPU or anything with DLPack, of any dtype: [rows, ...]. Ragged rows
are the true rows of all sequences back to back, [num_tokens, ...]; local rows are what one context-parallel rank holds,
[local_rows, ...]. What comes back is of the kind that went in. Nothing is copied but the rows themselves, once, and no lock
is held meanwhile. Arrays that are not contiguous, on another device or require a gradient are refused with InputError.
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
    """The ranks of context parallelism and how they cut a sequence.

    'zigzag': 2 * size equal chunks, of which rank r takes chunks r and 2 * size - 1 - r (Megatron, Transformer Engine).
    'contiguous': size equal chunks in order (Ulysses).
    """

    __slots__ = ("_size", "_layout")

    def __init__(self, size: int = 1, layout: str = "zigzag") -> None:
        self._size, self._layout = _c.int32(size), layout
        if self._size < 1:
            _c.raise_error("input", "context-parallel size", f"{self._size} is below 1")
        _c.value_of(_LAYOUTS, layout, "layout")

    @property
    def size(self) -> int:
        return self._size

    @property
    def layout(self) -> str:
        return self._layout

    @property
    def chunks(self) -> int:
        """Equal chunks that a sequence is cut into."""
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
    """Where b sequences stand in one packed micro-batch.

    They stand back to back, each aligned, each cut over the context-parallel ranks on its own. ``lengths`` are true lengths in
    tokens; ``alignment`` is what each is rounded up to a multiple of, by default what tp and cp need: 2 * cp * tp for zigzag.
    ``cp`` is a CpGroup, or the size of a zigzag one. ``aligned_lengths`` gives each sequence's aligned length instead.

    Raises InputError for a negative length or an alignment that the cut does not divide, LimitError above 2**31 - 1 rows.
    A value: arrays it hands out are copies.
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
            _c.raise_error("input", "packed micro-batch", f"has {len(numbers)} lengths but {len(aligned)} aligned lengths")
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
        """In tokens."""
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
        """The rows of a sequence in each CP rank's tensors, as a slice."""
        at = _arrays.checked_index(sequence, len(self), "sequence")
        return slice(int(self._padded[at]) // self._cp.size, int(self._padded[at + 1]) // self._cp.size, 1)

    def padded_to(self, rows: int) -> PackedLayout:
        """This layout made so many rows long: the last sequence's aligned length takes up the difference. Raises InputError where
        rows would be cut off or what is added is not a multiple of the alignment."""
        padded, longest = np.empty_like(self._padded), ctypes.c_int32()
        lib.evenkeel_layout_pad_to(ctypes.byref(self._struct), _c.int64(rows), _c.address(padded), ctypes.byref(longest))
        return PackedLayout._of(self._cp, self._true, padded, self.alignment, longest.value)

    def runs(self, cp_rank: int = 0) -> list[tuple[int, int, int, int]]:
        """Every run of true tokens of a CP rank as (sequence, begin, end, local row), in local order."""
        return [(sequence, begin, end, local) for sequence, begin, end, local in self._runs(cp_rank).tolist()]

    def _runs(self, cp_rank: int) -> Int64s:
        """The same as an array, [runs, 4]."""
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
    """The multiple that every sequence's length is rounded up to, in tokens: 2 * cp * tp for zigzag, cp * tp for
    contiguous, tp without context parallelism; then the least common multiple with ``extra`` (FP8 kernels like 16)."""
    return _alignment_of(_c.int32(tp), *_group_of(cp)._numbers(), _c.int64(extra))


@functools.lru_cache
def _alignment_of(tp: int, cp_size: int, cp_layout: int, extra: int) -> int:
    alignment = ctypes.c_int64()
    lib.evenkeel_sequence_alignment(tp, cp_size, cp_layout, extra, ctypes.byref(alignment))
    return alignment.value


def cp_runs(aligned_length: int, cp: CpGroup | int, cp_rank: int) -> list[tuple[int, int]]:
    """The rows of one aligned sequence that a CP rank holds, as (begin, end), in the order in which it holds them.

    >>> cp_runs(8, 2, 0)
    [(0, 2), (6, 8)]
    """
    bounds, count = (ctypes.c_int64 * 4)(), ctypes.c_int64()
    lib.evenkeel_cp_runs(_c.int64(aligned_length), *_group_of(cp)._numbers(), _c.int32(cp_rank), bounds, ctypes.byref(count))
    return [(bounds[2 * i], bounds[2 * i + 1]) for i in range(count.value)]


def partitioned_indices(cu_seqlens_padded: Any, cp: CpGroup | int, cp_rank: int) -> Any:
    """Transformer Engine's ``thd_get_partitioned_indices``: the rows of the whole packed tensor that a CP rank holds, in
    local order: [local_rows] int64."""
    sums, group = _arrays.small_integers_of(cu_seqlens_padded, "cu_seqlens_padded"), _group_of(cp)
    indices = np.empty(max(0, int(sums[-1])) // group.size if len(sums) else 0, np.int64)
    lib.evenkeel_partitioned_indices(_c.address(sums), len(sums), *group._numbers(), _c.int32(cp_rank), _c.address(indices))
    return _arrays.handed_out(indices, cu_seqlens_padded)


def cu_seqlens_on_cp_rank(cu_seqlens: Any, cu_seqlens_padded: Any, cp_size: int, cp_rank: int) -> tuple[Any, Any, Any]:
    """Transformer Engine's ``get_cu_seqlens_on_cp_rank``, zigzag: the true tokens of each sequence on one CP rank as
    cumulative lengths, of the first half of its rows, of the second half, and of all: three of [b + 1] int32."""
    true, padded = (_arrays.small_integers_of(sums, name) for sums, name in (
        (cu_seqlens, "cu_seqlens"), (cu_seqlens_padded, "cu_seqlens_padded")))
    if len(true) != len(padded):
        _c.raise_error("input", "cu_seqlens", f"has {len(true)} entries, but cu_seqlens_padded has {len(padded)}")
    found = [np.empty_like(true) for _ in range(3)]
    lib.evenkeel_cu_seqlens_on_cp_rank(_c.address(true), _c.address(padded), len(true), _c.int32(cp_size), _c.int32(cp_rank),
                                       *map(_c.address, found))
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
    pad_row = rows.row_of(pad, "pad")
    lib.evenkeel_pack_rows(ctypes.byref(layout._struct), _c.int32(cp_rank), _arrays.readable(rows.array, "values"), _arrays.readable(pad_row, "pad"),
                           _arrays.writable(target.array, "out"), _c.int64(threads))
    return target.value


def pack_all(layout: PackedLayout, values: Any, *, pad: Any = 0, threads: int = 1) -> list[Any]:
    """The same for all CP ranks at once, which reads the ragged rows once: one tensor a rank."""
    rows = _rows_of(values, layout.num_tokens, "values")
    targets = [rows.empty(layout.local_rows, *rows.trailing) for _ in range(layout.cp.size)]
    pad_row, buffers = rows.row_of(pad, "pad"), _buffers(_arrays.writable(target.array, "out") for target in targets)
    lib.evenkeel_pack_all_ranks(ctypes.byref(layout._struct), _arrays.readable(rows.array, "values"), _arrays.readable(pad_row, "pad"), buffers,
                                len(buffers), _c.int64(threads))
    return [target.value for target in targets]


def unpack(layout: PackedLayout, local: Any, *, out: Any, cp_rank: int = 0, threads: int = 1) -> Any:
    """One CP rank's rows into its share of the ragged rows ``out``, [num_tokens, ...]; other ranks' rows stay untouched,
    so that calling it for every rank merges. Returns ``out``."""
    rows = _rows_of(local, layout.local_rows, "local")
    target = rows.shaped_as(out, (layout.num_tokens, *rows.trailing), "out")
    lib.evenkeel_unpack_rows(ctypes.byref(layout._struct), _c.int32(cp_rank), _arrays.readable(rows.array, "local"),
                             _arrays.writable(target.array, "out"), _c.int64(threads))
    return target.value


def merge(layout: PackedLayout, locals: Sequence[Any], *, out: Any = None, threads: int = 1) -> Any:
    """The rows of all CP ranks, one tensor a rank, back as ragged rows [num_tokens, ...]: the inverse of pack_all.

    Without context parallelism the packed tensor itself will do for ``locals``.
    """
    if layout.cp.size == 1 and not isinstance(locals, (list, tuple)):
        locals = [locals]
    parts = [_rows_of(local, layout.local_rows, f"locals[{r}]") for r, local in enumerate(locals)]
    if len(parts) != layout.cp.size:
        _c.raise_error("input", "locals", f"there are {len(parts)}; there are {layout.cp.size} context-parallel ranks")
    _require_alike(parts, "locals")
    target = _result(parts[0], (layout.num_tokens, *parts[0].trailing), out)
    buffers = _buffers(_arrays.readable(part.array, "locals") for part in parts)
    lib.evenkeel_unpack_all_ranks(ctypes.byref(layout._struct), buffers, len(buffers), _arrays.writable(target.array, "out"), _c.int64(threads))
    return target.value


def split(layout: PackedLayout, ragged: Any) -> list[Any]:
    """Each sequence's rows of ragged rows [num_tokens, ...]: views of the same memory."""
    if ragged.shape[0] != layout.num_tokens:
        _c.raise_error("input", "ragged", f"has {ragged.shape[0]} rows; the layout has {layout.num_tokens} tokens")
    bounds = layout.cu_seqlens.tolist()
    return [ragged[begin:end] for begin, end in zip(bounds, bounds[1:])]


def fill_padding(layout: PackedLayout, local: Any, *, cp_rank: int = 0, pad: Any = 0) -> Any:
    """Fills only the pad rows of local rows, in place, for tensors that something else fills. Returns ``local``."""
    rows = _rows_of(local, layout.local_rows, "local")
    pad_row = rows.row_of(pad, "pad")
    lib.evenkeel_fill_pad_rows(ctypes.byref(layout._struct), _c.int32(cp_rank), _arrays.readable(pad_row, "pad"), _arrays.writable(rows.array, "local"))
    return rows.value


def position_ids(layout: PackedLayout, *, cp_rank: int = 0) -> npt.NDArray[np.int64]:
    """Position ids of a CP rank's rows, from 0 in every sequence; they run on through pad rows: [local_rows] int64."""
    ids = np.empty(layout.local_rows, np.int64)
    lib.evenkeel_position_ids(ctypes.byref(layout._struct), _c.int32(cp_rank), _c.address(ids))
    return ids


def labels(layout: PackedLayout, tokens: Any, *, cp_rank: int = 0, label_pad: int = -100) -> Any:
    """Labels of a CP rank's rows, [local_rows] int64: the next token of the same sequence, also where another CP rank
    holds it; ``label_pad`` at its end and in pad rows. ``tokens`` are the ragged tokens, [num_tokens] int64."""
    rows = _rows_of(tokens, layout.num_tokens, "tokens")
    target = rows.empty(layout.local_rows, *rows.trailing)
    for array, name in ((rows.array, "tokens"), (target.array, "out")):
        if array.dtype != np.int64:
            _c.raise_error("input", name, f"has the dtype {array.dtype.name!r}; int64 is needed",
                           "Convert it: x.astype('int64') of NumPy, x.to(torch.int64) of PyTorch")
    tokens_in, labels_out = _arrays.readable(rows.array, "tokens"), _arrays.writable(target.array, "out")
    lib.evenkeel_labels(ctypes.byref(layout._struct), _c.int32(cp_rank), tokens_in.data, rows.array.size, _c.int64(label_pad), labels_out.data)
    return target.value


def loss_mask(layout: PackedLayout, prompt_lengths: Any, *, cp_rank: int = 0) -> Any:
    """Loss mask of a CP rank's rows, [local_rows] float32, shifted as the labels are: 1 where the label is a response
    token. ``prompt_lengths`` has one entry a sequence."""
    prompts, mask = _arrays.integers(prompt_lengths, "prompt_lengths"), np.empty(layout.local_rows, np.float32)
    lib.evenkeel_loss_mask(ctypes.byref(layout._struct), _c.int32(cp_rank), _c.address(prompts), len(prompts), _c.address(mask))
    return _arrays.handed_out(mask, prompt_lengths)


def loss_weights(layout: PackedLayout, token_weights: Any, mask: Any) -> Any:
    """Each row's weight in the loss, [local_rows] float32: its sequence's entry of ``token_weights`` (as a plan's
    micro-batches have them) where ``mask`` is not 0, else 0. Multiply by the rows' losses, sum up, and multiply by the
    micro-batch's scale."""
    by_sequence = np.ascontiguousarray(token_weights, dtype=np.float64)
    given = _rows_of(mask, layout.local_rows, "mask")
    if given.trailing:
        _c.raise_error("input", "mask", f"has the shape {given.array.shape}; it needs one value per row")
    is_set, weights = given.array != 0, np.empty(layout.local_rows, np.float32)
    lib.evenkeel_loss_weights(ctypes.byref(layout._struct), _c.address(by_sequence), by_sequence.size, _c.address(is_set), is_set.size, _c.address(weights))
    return _arrays.handed_out(weights, mask)


def _rows_of(value: Any, count: int, name: str) -> _arrays.Rows:
    rows = _arrays.Rows(value, name)
    if rows.array.shape[0] != count:
        _c.raise_error("input", name, f"has {rows.array.shape[0]} rows; the layout has {count}")
    return rows


def _pack_sequences(
    layout: PackedLayout, sequences: Sequence[Any], cp_rank: int, pad: Any, out: Any, threads: int
) -> Any:
    if len(sequences) != len(layout):
        _c.raise_error("input", "values", f"there are {len(sequences)} sequences; the layout has {len(layout)}")
    if not sequences:
        _c.raise_error("input", "values", "is an empty list, which has no dtype", "Pass ragged rows")
    parts = [_arrays.Rows(sequence, f"values[{i}]") for i, sequence in enumerate(sequences)]
    _require_alike(parts, "values")
    for i, (part, length) in enumerate(zip(parts, layout.lengths.tolist())):
        if part.array.shape[0] != length:
            _c.raise_error("input", f"values[{i}]", f"has {part.array.shape[0]} rows; the layout has {length}")
    target = _result(parts[0], (layout.local_rows, *parts[0].trailing), out)
    buffers = _buffers(_arrays.readable(part.array, f"values[{i}]") for i, part in enumerate(parts))
    pad_row = parts[0].row_of(pad, "pad")
    lib.evenkeel_pack_sequences(ctypes.byref(layout._struct), _c.int32(cp_rank), buffers, len(buffers), _arrays.readable(pad_row, "pad"),
                                _arrays.writable(target.array, "out"), _c.int64(threads))
    return target.value


def _buffers(rows: Iterable[Any]) -> Any:
    """An array of evenkeel_rows."""
    every = list(rows)
    return (c.evenkeel_rows * len(every))(*every)


def _require_alike(parts: Sequence[_arrays.Rows], name: str) -> None:
    """Rows of one dtype and shape, whose bytes can stand in one tensor."""
    first = parts[0]
    for i, part in enumerate(parts):
        if part.dtype != first.dtype or part.trailing != first.trailing:
            _c.raise_error("input", f"{name}[{i}]", f"has rows of {part.trailing} {part.dtype}; the first has rows of "
                              f"{first.trailing} {first.dtype}")


def _result(like: _arrays.Rows, shape: tuple[int, ...], out: Any) -> _arrays.Rows:
    return like.empty(*shape) if out is None else like.shaped_as(out, shape, "out")
