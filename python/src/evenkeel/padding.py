"""Converts padded tensors with a mask, padded on any side, to ragged rows and back.

Tensors are as in evenkeel.packing. A mask is [batch, seq], 1 at real tokens: bool or any integer dtype.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from evenkeel import _arrays, _c
from evenkeel import _prototypes as c
from evenkeel._c import lib
from evenkeel._text import counted

__all__ = ["lengths_of_mask", "pad_right", "remove_padding", "response_prediction_rows", "restore_padding"]


def lengths_of_mask(mask: Any) -> Any:
    """Returns the true length of each row of a mask: [batch] int64. Raises InputError for entries other than 0 and 1."""
    return _arrays.convert_like(_lengths_of(mask_bytes(mask)), mask)


def remove_padding(padded: Any, mask: Any) -> Any:
    """Converts padded rows [batch, seq, ...] to concatenated ragged rows, [num_tokens, ...], in the order of the mask's
    ones."""
    rows = _padded_rows(padded, mask, "padded")
    places = mask_bytes(mask)
    target = rows.empty(int(_lengths_of(places).sum()), *rows.trailing[1:])
    lib.evenkeel_remove_padding(c_mask(places), _arrays.row_bytes_of(rows.array, 2), _arrays.readable(rows.array, "padded"),
                                _arrays.writable(target.array, "out"))
    return target.value


def restore_padding(ragged: Any, mask: Any, *, pad: Any = 0) -> Any:
    """The inverse of remove_padding: returns [batch, seq, ...] with the ragged rows [num_tokens, ...] at the mask's ones and
    ``pad`` elsewhere."""
    rows = _arrays.Rows(ragged, "ragged")
    places = mask_bytes(mask)
    target = rows.empty(*places.shape, *rows.trailing)
    pad_row = rows.row_of(pad, "pad")
    lib.evenkeel_restore_padding(c_mask(places), _arrays.row_bytes_of(target.array, 2), _arrays.readable(rows.array, "ragged"),
                                 _arrays.readable(pad_row, "pad"), _arrays.writable(target.array, "out"))
    return target.value


def pad_right(ragged: Any, lengths: Any, *, seq: int | None = None, kept: Any = None, pad: Any = 0) -> Any:
    """Converts ragged rows [sum(lengths), ...] to right-padded ones, [b, seq, ...]; ``seq`` defaults to the maximum length.

    ``kept`` is (begins, ends), the range of rows to keep of each sequence; a begin of -1 is a row before the first, filled
    with ``pad``. With the result of response_prediction_rows, column j is response token j."""
    rows = _arrays.Rows(ragged, "ragged")
    numbers = _arrays.integers(lengths, "lengths")
    begins, ends = (np.zeros_like(numbers), numbers) if kept is None else (_arrays.integers(k, "kept") for k in kept)
    if not len(numbers) == len(begins) == len(ends):
        _c.raise_error("input", "kept", f"has {counted(len(begins), 'range start')} and {counted(len(ends), 'range end')} for "
                       f"{counted(len(numbers), 'sequence')}")
    if seq is None:
        seq = max(0, int((ends - begins).max(initial=0)))
    if seq < 0:
        _c.raise_error("input", "seq", f"is {seq}; it must be at least 0")
    target = rows.empty(len(numbers), seq, *rows.trailing)
    pad_row = rows.row_of(pad, "pad")
    lib.evenkeel_pad_right(_c.address(numbers), _c.address(begins), _c.address(ends), len(numbers), _c.int64(seq),
                           _arrays.row_bytes_of(target.array, 2), _arrays.readable(rows.array, "ragged"),
                           _arrays.readable(pad_row, "pad"), _arrays.writable(target.array, "out"))
    return target.value


def response_prediction_rows(lengths: Any, prompt_lengths: Any) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Returns the rows [begin, end) at which a model predicts each sequence's response tokens, for pad_right: two arrays [b]
    int64. Nothing predicts the first token of a sequence without a prompt, so its row is -1."""
    numbers, prompts = _arrays.integers(lengths, "lengths"), _arrays.integers(prompt_lengths, "prompt_lengths")
    if len(prompts) != len(numbers):
        _c.raise_error("input", "prompt_lengths", f"has {counted(len(prompts), 'entry', 'entries')} for {counted(len(numbers), 'sequence')}")
    begins, ends = np.empty_like(numbers), np.empty_like(numbers)
    lib.evenkeel_response_prediction_rows(_c.address(numbers), _c.address(prompts), len(numbers), _c.address(begins),
                                          _c.address(ends))
    return begins, ends


def _lengths_of(places: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    mask = c_mask(places)
    lengths = np.empty(places.shape[0], np.int64)
    lib.evenkeel_mask_lengths(mask, _c.address(lengths))
    return lengths


def c_mask(places: npt.NDArray[np.uint8]) -> Any:
    """Returns a mask's bytes in the form that the library reads."""
    if places.ndim != 2:
        _c.raise_error("input", "mask", f"has {counted(places.ndim, 'dimension')}; it must have two, [batch, seq]")
    return c.evenkeel_mask(*places.shape, _arrays.readable(places, "mask").data)


def mask_bytes(mask: Any) -> npt.NDArray[np.uint8]:
    """Returns a mask as bytes: over the same memory if it is bool or uint8, otherwise a copy in which 2 represents any
    value other than 0 and 1."""
    array = _arrays.as_numpy(mask, "mask")
    if str(getattr(mask, "dtype", "")) == "torch.bfloat16":
        _c.raise_error("input", "mask", "has the dtype torch.bfloat16; it must be bool or an integer dtype")
    if array.dtype == np.bool_ or array.dtype == np.uint8:
        return array.view(np.uint8)
    if array.dtype.kind not in "iu":
        _c.raise_error("input", "mask", f"has the dtype {array.dtype}; it must be bool or an integer dtype")
    return np.where((array == 0) | (array == 1), array, 2).astype(np.uint8)


def _padded_rows(padded: Any, mask: Any, name: str) -> _arrays.Rows:
    rows = _arrays.Rows(padded, name)
    if tuple(rows.array.shape[:2]) != tuple(mask.shape):
        _c.raise_error("input", name, f"has the shape {tuple(rows.array.shape)}; the mask has {tuple(mask.shape)}")
    return rows
