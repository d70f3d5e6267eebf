"""Run-length encoding for fields with the same value for many consecutive tokens, such as the version of the policy
that sampled them (docs/python.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from evenkeel import _arrays, _c
from evenkeel._text import counted

__all__ = ["expand", "segments"]


def expand(runs: Sequence[Any], dtype: npt.DTypeLike = np.int32) -> list[npt.NDArray[Any]]:
    """Expands each sample's runs, pairs of a value and a number of tokens, [runs, 2], to rows, which Samples takes as a
    field with one row per token or response token. A rollout that was interrupted and resumed with another version has
    one run for each version.

    Raises InputError for anything but pairs of integers, a negative number of tokens, and a value that ``dtype`` cannot
    represent.
    """
    kind = np.dtype(dtype)
    if kind.kind not in "iu":
        _c.raise_error("input", "dtype", f"is {kind}; it must be an integer dtype", "Choose one, such as int32")
    return [_rows_of(pairs, i, kind) for i, pairs in enumerate(runs)]


def segments(rows: Any) -> tuple[npt.NDArray[np.int64], Any]:
    """Returns the runs of equal values in a field's rows, [rows]: offsets, [runs + 1], and the value of each, [runs], as an
    array or tensor like ``rows``. Rows ``offsets[i]`` to ``offsets[i + 1]`` hold ``values[i]``. A new run starts only
    where values differ, not at the boundaries of samples or of context-parallel chunks."""
    array = _arrays.as_numpy(rows, "rows")
    if array.ndim != 1:
        _c.raise_error("input", "rows", f"have the shape {list(array.shape)}", "Use a field with one value per row")
    changes = np.flatnonzero(array[1:] != array[:-1]) + 1
    starts = np.concatenate([np.zeros(min(1, len(array)), np.int64), changes])
    return np.append(starts, len(array)), rows[_arrays.convert_like(starts, rows)]


def _rows_of(pairs: Any, sample: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    where = f"runs[{sample}]"
    try:
        array = np.asarray(pairs)
    except ValueError:  # lists of different lengths
        array = np.empty((1, 0, 0))
    if array.size == 0 and array.ndim < 3:
        return np.empty(0, dtype)
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu":
        _c.raise_error("input", where, "is not a list of pairs of integers", "Write [[value, tokens], ...]")
    values, counts = array[:, 0], array[:, 1]
    if (counts < 0).any():
        _c.raise_error("input", f"{where}[{counts.argmin()}]",
                       f"has {counted(int(counts.min()), 'token')}; the length of a run cannot be negative")
    limits = np.iinfo(dtype)
    for value in (int(values.min()), int(values.max())):
        if not limits.min <= value <= limits.max:
            _c.raise_error("input", where, f"has the value {value}, which {dtype} cannot hold", "Choose another dtype")
    return np.repeat(values.astype(dtype), counts)
