"""Samples that a rank brings, and results that come home (docs/python.md)."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenkeel import _arrays, _core
from evenkeel._fields import WithFields, dtype_word

if TYPE_CHECKING:
    from evenkeel import _service
else:
    from evenkeel._ranks import extension as _service

__all__ = ["Samples"]

KINDS = ("token", "response_token", "sample")


class Samples(WithFields):
    """Samples of this rank: their lengths in tokens, and named fields.

    ``ids`` are whole numbers from 0 on, by which micro-batches and results name samples; ``groups`` say which samples have
    one prompt (None: each is a group of its own). A field is one tensor of all samples' rows back to back, or a list of
    one tensor a sample: ``token`` fields have a row a token, ``response_token`` fields a row a response token, ``sample``
    fields a row a sample. ``axes`` are token fields that come axes first, [axes, tokens], as positions of several axes do
    (M-RoPE): they are kept as [tokens, axes], and ``axes_first`` turns them back wherever they are handed out. Rows are
    copied. Raises InputError for fields whose rows do not fit, and dtypes other than bool, uint8, int8, int16, uint16,
    int32, uint32, int64, float16, bfloat16, float32 and float64.
    """

    __slots__ = ()
    _core: _service.Samples

    def __init__(
        self,
        *,
        ids: Any,
        prompt_lengths: Any,
        response_lengths: Any,
        groups: Any = None,
        token: Mapping[str, Any] | None = None,
        response_token: Mapping[str, Any] | None = None,
        sample: Mapping[str, Any] | None = None,
        axes: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(_service.Samples(ids, ids if groups is None else groups, prompt_lengths, response_lengths), False)
        for kind, fields in zip(KINDS, (token, response_token, sample)):
            for name, rows in (fields or {}).items():
                _add(self._core, name, kind, rows)
        for name, rows in (axes or {}).items():
            _add(self._core, name, "token", _tokens_first(rows, name))

    @classmethod
    def _of(cls, core: _service.Samples, tensors: bool) -> Samples:
        samples = cls.__new__(cls)
        WithFields.__init__(samples, core, tensors)
        return samples

    def __len__(self) -> int:
        return len(self._core)

    @property
    def ids(self) -> npt.NDArray[np.int64]:
        return self._core.ids

    @property
    def groups(self) -> npt.NDArray[np.int64]:
        return self._core.groups

    @property
    def fields(self) -> dict[str, Any]:
        """By name, the rows of all samples back to back: views of this object's memory, which they keep."""
        return self._by_name()

    def rows_of(self, name: str) -> list[Any]:
        """A field sample by sample, as views."""
        rows = self[name]
        kind = next(kind for field, _, kind, _ in self._core.fields() if field == name)
        counts = {
            "token": self.prompt_lengths + self.response_lengths,
            "response_token": self.response_lengths,
            "sample": np.ones(len(self), np.int64),
        }[kind]
        ends = np.cumsum(counts)
        return [rows[end - count : end] for end, count in zip(ends.tolist(), counts.tolist())]


def core_of(samples: Any) -> _service.Samples:
    if isinstance(samples, Samples):
        return samples._core
    raise TypeError(f"samples are evenkeel.Samples, not a {type(samples).__name__}")


def _add(core: _service.Samples, name: str, kind: str, rows: Any) -> None:
    if isinstance(rows, Sequence) and not isinstance(rows, (str, bytes)):
        rows = _joined(rows, name)
    values = _arrays.Rows(rows, name)
    core.add(name, dtype_word(values), kind, values.array)


def _tokens_first(rows: Any, name: str) -> Any:
    """[axes, tokens], of all samples or of each, as [tokens, axes]."""
    if isinstance(rows, Sequence) and not isinstance(rows, (str, bytes)):
        return [_tokens_first(of_sample, name) for of_sample in rows]
    shape = list(getattr(rows, "shape", ()))
    if len(shape) != 2:
        _core.raise_error("input", f"field {name!r}", f"has the shape {shape}", "Bring [axes, tokens]")
    tensor: Any = rows
    return tensor.T.contiguous() if _arrays.is_tensor(tensor) else np.ascontiguousarray(tensor.T)


def _joined(rows: Sequence[Any], name: str) -> Any:
    """Rows of each sample back to back."""
    if not rows or not (_arrays.is_tensor(rows[0]) or isinstance(rows[0], np.ndarray)):
        _core.raise_error("input", f"field {name!r}", "is a list of no tensors", "Pass one tensor of all rows, or one a sample")
    if len({str(row.dtype) for row in rows}) > 1:
        _core.raise_error("input", f"field {name!r}", f"has the dtypes {', '.join(sorted({str(r.dtype) for r in rows}))}")
    if _arrays.is_tensor(rows[0]):
        return sys.modules["torch"].cat(list(rows))
    return np.concatenate(rows)
