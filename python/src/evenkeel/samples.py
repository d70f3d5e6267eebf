"""Samples that a rank brings, and results that come home (docs/python.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from evenkeel import _arrays, _core
from evenkeel._fields import RULES, WithFields, counted, dtype_word, joined

if TYPE_CHECKING:
    from evenkeel import _service
else:
    from evenkeel._ranks import extension as _service

__all__ = ["Samples"]


class Samples(WithFields):
    """Samples of this rank: their lengths in tokens, and named fields.

    ``ids`` are whole numbers from 0 on, by which micro-batches and results name samples; ``groups`` say which samples have
    one prompt, by whole numbers or a str each (None: each is a group of its own). A field is one tensor of all samples' rows back to back, or a list of
    one tensor a sample: ``token`` fields have a row a token, ``response_token`` fields a row a response token, ``sample``
    fields a row a sample. Lists of numbers, as inference servers return them, do too: whole numbers are int64, real ones
    float32. ``labels`` and ``loss_mask`` as token fields need their row convention in the configuration, such as
    ``fields: {labels: {at: token}}`` (docs/adapters.md#row-conventions), and so do other fields whose values belong to the prediction
    of their token; ``response_mask`` is the loss mask under another name. ``axes`` are token fields that come axes first, [axes, tokens], as positions of several axes do
    (M-RoPE): they are kept as [tokens, axes], and ``axes_first`` turns them back wherever they are handed out. Of other
    fields each sample has any number: ``rows`` fields are a list of one tensor a sample, or all rows and their offsets,
    [samples + 1]; ``text`` fields are one str a sample, ``bytes`` fields one bytes a sample. Everything is copied. On a rank
    without samples an empty list will do for any field, whose dtype the other ranks know. Fields of bfloat16 are handed out as
    float32 arrays, since NumPy has no bfloat16.

    Fields whose rows do not fit are an InputError, and so are dtypes other than bool, uint8, int8, int16, uint16, int32,
    uint32, int64, float16, bfloat16, float32 and float64. The constructor keeps such an error instead of raising it, since the
    other ranks would wait for this one: step() and step_again() raise it on all ranks, and reading the samples raises it here.
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
        rows: Mapping[str, Any] | None = None,
        text: Mapping[str, Any] | None = None,
        bytes: Mapping[str, Any] | None = None,
    ) -> None:
        def build() -> _service.Samples:
            core = _service.Samples(ids, groups, prompt_lengths, response_lengths)
            for kind, fields in zip(RULES, (token, response_token, sample, rows, text, bytes)):
                for name, values in (fields or {}).items():
                    _add(core, name, kind, values)
            for name, values in (axes or {}).items():
                _add(core, name, "token", _tokens_first(values, name))
            return core

        super().__init__(_built(build), False)

    @classmethod
    def _of(cls, core: _service.Samples, tensors: bool) -> Samples:
        samples = cls.__new__(cls)
        WithFields.__init__(samples, core, tensors)
        return samples

    def __len__(self) -> int:
        """How many samples there are."""
        return len(self._core)

    def __repr__(self) -> str:
        tokens = int(self.prompt_lengths.sum() + self.response_lengths.sum())
        return f"Samples({len(self)} samples, {tokens} tokens: {', '.join(self) or 'no fields'})"

    @property
    def ids(self) -> npt.NDArray[np.int64]:
        return self._core.ids

    @property
    def groups(self) -> npt.NDArray[np.int64]:
        """A number a group; of samples that are groups of their own, a negative one."""
        return self._core.groups

    @property
    def fields(self) -> dict[str, Any]:
        """By name, the rows of all samples back to back: views of this object's memory, which they keep. A ``rows`` field
        is (rows, offsets), a ``text`` field a list of str, a ``bytes`` field a list of bytes."""
        return self._by_name()

    def rows_of(self, name: str) -> list[Any]:
        """A field sample by sample, as views; text and bytes are one value a sample."""
        rows = self[name]
        rule = RULES[self.kinds()[name]]
        if rule.form != "numbers":
            return list(rows)
        if rule.is_counted:
            rows, offsets = rows
            bounds = [int(at) for at in offsets]
            return [rows[begin:end] for begin, end in zip(bounds, bounds[1:])]
        counts = {
            "token": self.prompt_lengths + self.response_lengths,
            "response_token": self.response_lengths,
            "sample": np.ones(len(self), np.int64),
        }[rule.rows_per]
        ends = np.cumsum(counts)
        return [rows[end - count : end] for end, count in zip(ends.tolist(), counts.tolist())]


def core_of(samples: Any) -> _service.Samples:
    """What C++ has of these samples. Raises the error with which they were built, if they have one."""
    if not isinstance(samples, Samples):
        raise TypeError(f"samples are evenkeel.Samples, not a {type(samples).__name__}")
    if isinstance(samples._core, _NotBuilt):
        samples._core.refuse()
    return samples._core


def built_by(build: Callable[[], Samples]) -> Samples:
    """The samples that ``build`` returns, or samples that keep what it raises, as the constructor does."""
    return Samples._of(_built(lambda: core_of(build())), False)


def _built(build: Callable[[], Any]) -> Any:
    try:
        return build()
    except Exception as error:
        return _NotBuilt(error)


class _NotBuilt:
    """Takes the place of samples that could not be built: whoever reads them gets the error."""

    __slots__ = ("_error",)

    def __init__(self, error: Exception) -> None:
        self._error = error

    def refuse(self) -> NoReturn:
        raise self._error

    def __getattr__(self, name: str) -> NoReturn:
        self.refuse()

    def __len__(self) -> int:
        self.refuse()


def _add(core: _service.Samples, name: str, kind: str, rows: Any) -> None:
    counts = None
    if RULES[kind].is_counted:
        rows, counts = counted(kind, name, rows)
    elif isinstance(rows, Sequence) and not isinstance(rows, (str, bytes)):
        rows = joined(rows, name)
    values = _arrays.Rows(rows, name)
    core.add(name, dtype_word(values), kind, values.array, counts)


def _tokens_first(rows: Any, name: str) -> Any:
    """[axes, tokens], of all samples or of each, as [tokens, axes]."""
    if isinstance(rows, Sequence) and not isinstance(rows, (str, bytes)):
        return [_tokens_first(of_sample, name) for of_sample in rows]
    shape = list(getattr(rows, "shape", ()))
    if len(shape) != 2:
        _core.raise_error("input", f"field {name!r}", f"has the shape {shape}", "Bring [axes, tokens]")
    tensor: Any = rows
    return tensor.T.contiguous() if _arrays.is_tensor(tensor) else np.ascontiguousarray(tensor.T)
