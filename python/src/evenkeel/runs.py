"""Fields that say the same of many tokens in a row, such as which version of the policy sampled them, as runs (docs/python.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from evenkeel import _arrays, _core

__all__ = ["expand", "segments"]


def expand(runs: Sequence[Any], dtype: npt.DTypeLike = np.int32) -> list[npt.NDArray[Any]]:
    """Each sample's rows out of its runs, which are pairs of a value and how many tokens have it, [runs, 2]: what Samples
    takes as a field of one row a token, or a response token. A rollout that was interrupted and went on under another
    version has its runs one after the other.

    Raises InputError for what are no pairs of integers, a negative number of tokens, and a value that ``dtype`` cannot hold.
    """
    return [_rows_of(pairs, i, np.dtype(dtype)) for i, pairs in enumerate(runs)]


def segments(rows: Any) -> tuple[npt.NDArray[np.int64], Any]:
    """The runs of equal values in a field's rows, [rows]: offsets, [runs + 1], and the value of each, [runs], as an array or
    tensor as ``rows`` is. Rows ``offsets[i]`` to ``offsets[i + 1]`` hold ``values[i]``. A cut of context parallelism, and the
    rows between two samples, begin new runs only where values differ."""
    array = _arrays.as_numpy(rows, "rows")
    if array.ndim != 1:
        _core.raise_error("input", "rows", f"have the shape {list(array.shape)}", "Take a field of one value a row")
    changes = np.flatnonzero(array[1:] != array[:-1]) + 1
    starts = np.concatenate([np.zeros(min(1, len(array)), np.int64), changes])
    return np.append(starts, len(array)), rows[_arrays.handed_out(starts, rows)]


def _rows_of(pairs: Any, sample: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    where = f"runs[{sample}]"
    array = np.asarray(pairs)
    if array.size == 0:
        return np.empty(0, dtype)
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu":
        _core.raise_error("input", where, "are no pairs of integers", "Write [[value, tokens], ...]")
    values, counts = array[:, 0], array[:, 1]
    if (counts < 0).any():
        _core.raise_error("input", where, f"have {int(counts.min())} tokens in a run")
    limits = np.iinfo(dtype)
    for value in (int(values.min()), int(values.max())):
        if not limits.min <= value <= limits.max:
            _core.raise_error("input", where, f"have the value {value}, which {dtype} cannot hold", "Choose another dtype")
    return np.repeat(values.astype(dtype), counts)
