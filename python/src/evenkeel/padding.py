"""Padded tensors with a mask, on whatever side their padding is, to ragged rows and back.

Tensors are as in evenkeel.packing. A mask is [batch, seq], 1 where a token is real: bool or any integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from evenkeel import _arrays, _core

__all__ = ["lengths_of_mask", "pad_right", "remove_padding", "response_prediction_rows", "restore_padding"]


def lengths_of_mask(mask: Any) -> Any:
    """The true length of each row of a mask: [batch] int64. Raises InputError for entries other than 0 and 1."""
    return _arrays.handed_out(_core.lengths_of_mask(mask_bytes(mask)), mask)


def remove_padding(padded: Any, mask: Any) -> Any:
    """Padded rows [batch, seq, ...] as ragged rows back to back, [num_tokens, ...], in the order of the mask's ones."""
    rows = _padded_rows(padded, mask, "padded")
    places = mask_bytes(mask)
    target = rows.empty(int(_core.lengths_of_mask(places).sum()), *rows.trailing[1:])
    _core.remove_padding(places, rows.array, target.array)
    return target.value


def restore_padding(ragged: Any, mask: Any, *, pad: Any = 0) -> Any:
    """The inverse: ragged rows [num_tokens, ...] at the places that the mask names, ``pad`` elsewhere:
    [batch, seq, ...]."""
    rows = _arrays.Rows(ragged, "ragged")
    places = mask_bytes(mask)
    target = rows.empty(*places.shape, *rows.trailing)
    _core.restore_padding(places, rows.array, rows.row_of(pad, "pad"), target.array)
    return target.value


def pad_right(ragged: Any, lengths: Any, *, seq: int | None = None, kept: Any = None, pad: Any = 0) -> Any:
    """Ragged rows [sum(lengths), ...] as right-padded ones, [b, seq, ...]; ``seq`` is the longest where it is not given.

    ``kept`` is (begins, ends), the rows of each sequence to keep; a begin of -1 is a row before the first, which is
    ``pad``. With what response_prediction_rows says, column j is response token j.
    """
    rows = _arrays.Rows(ragged, "ragged")
    numbers = _core.integers(lengths, "lengths")
    begins, ends = (np.zeros_like(numbers), numbers) if kept is None else (_core.integers(k, "kept") for k in kept)
    if seq is None:
        seq = max(0, int((ends - begins).max(initial=0)))
    if seq < 0:
        _core.raise_error("input", "seq", f"{seq} is negative")
    target = rows.empty(len(numbers), seq, *rows.trailing)
    _core.pad_right(numbers, begins, ends, rows.array, rows.row_of(pad, "pad"), target.array)
    return target.value


def response_prediction_rows(lengths: Any, prompt_lengths: Any) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The rows [begin, end) at which a model predicts each sequence's response tokens, for pad_right: two of [b] int64.
    Nothing predicts the first token of a sequence without a prompt: its row is -1."""
    return _core.response_prediction_rows(lengths, prompt_lengths)


def mask_bytes(mask: Any) -> npt.NDArray[np.uint8]:
    """A mask as bytes: over the same memory where it is bool, else a copy in which 2 stands for what is no 0 and no 1."""
    array = _arrays.as_numpy(mask, "mask")
    if array.dtype == np.bool_ or array.dtype == np.uint8:
        return array.view(np.uint8)
    if array.dtype.kind not in "iu":
        _core.raise_error("input", "mask", f"has the dtype {array.dtype}; bool or whole numbers are needed")
    return np.where((array == 0) | (array == 1), array, 2).astype(np.uint8)


def _padded_rows(padded: Any, mask: Any, name: str) -> _arrays.Rows:
    rows = _arrays.Rows(padded, name)
    if tuple(rows.array.shape[:2]) != tuple(mask.shape):
        _core.raise_error("input", name, f"has the shape {tuple(rows.array.shape)}; the mask has {tuple(mask.shape)}")
    return rows
