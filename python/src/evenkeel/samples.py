"""The samples that a rank provides, and the results that it collects (docs/python.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from evenkeel import _arrays, _c
from evenkeel import _prototypes as c
from evenkeel._c import service as lib
from evenkeel._fields import RULES, SHAPE, Block, WithFields, columns_of, concatenate, count_rows, field_of, fields_of
from evenkeel._text import counted

__all__ = ["Samples"]


class Samples(WithFields):
    """Samples of this rank: their lengths in tokens, and named fields.

    ids               integers, at least 0, that identify the samples in micro-batches and results
    prompt_lengths    tokens of each prompt
    response_lengths  tokens of each response
    groups            an integer or a str per sample; samples with the same value share a prompt. None: each sample is a
                      separate group
    token             fields with one row per token
    response_token    fields with one row per response token
    sample            fields with one row per sample
    axes              token fields with the axes first, [axes, tokens], as positions with several axes (M-RoPE) have
                      them. They are stored as [tokens, axes]; ``axes_first`` returns them in the original form
    rows              fields with any number of rows per sample: a list of one tensor per sample, or a tuple of all rows
                      and their offsets [samples + 1]
    text              fields with one str per sample
    bytes             fields with one bytes object per sample

    ``token``, ``response_token`` and ``sample`` fields are one tensor with the concatenated rows of all samples, or a
    list of one tensor per sample. Lists of numbers, as inference servers return them, are also accepted: integers
    become int64, real numbers float32. For ``rows``, ``text`` and ``bytes`` fields the number of rows may differ per
    sample (docs/side-fields.md#rows-of-their-own). All values are copied. On a rank without samples, an empty list is
    accepted for every field; its dtype comes from the other ranks. Fields of bfloat16 are returned as float32 arrays,
    since NumPy has no bfloat16.

    ``labels`` and ``loss_mask`` as token fields need a row convention in the configuration, such as
    ``fields: {labels: {at: token}}`` (docs/micro-batches.md#row-conventions). So do other token fields whose values
    belong to the prediction of their token. ``response_mask`` is another name of the loss mask.

    A field with a wrong number of rows is an InputError, and so is a dtype other than bool, uint8, int8, int16, uint16,
    int32, uint32, int64, float16, bfloat16, float32 and float64. The constructor does not raise the error but keeps it,
    since the other ranks would wait for this one: step() and step_again() raise it on all ranks, and reading the
    samples raises it here.
    """

    __slots__ = ("_core",)

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
        def build() -> _arrays.Handle:
            core = _create(ids, groups, prompt_lengths, response_lengths)
            for kind, fields in zip(RULES, (token, response_token, sample, rows, text, bytes)):
                for name, values in (fields or {}).items():
                    _add(core, name, kind, values)
            for name, values in (axes or {}).items():
                _add(core, name, "token", _tokens_first(values, name))
            return core

        super().__init__(False)
        self._core = _try_build(build)

    @classmethod
    def _of(cls, core: Any, tensors: bool) -> Samples:
        samples = cls.__new__(cls)
        WithFields.__init__(samples, tensors)
        samples._core = core
        return samples

    def _shapes(self) -> npt.NDArray[Any]:
        shapes = np.empty(len(self), SHAPE)
        if len(shapes):
            lib.evenkeel_samples_get(core_of(self), c.evenkeel_sample.from_buffer(shapes))
        return shapes

    def _ask_for_fields(self) -> list[tuple[Any, ...]]:
        core = core_of(self)
        fields = fields_of(lib.evenkeel_samples_num_fields(core))()
        for i, field in enumerate(fields):
            lib.evenkeel_samples_field(core, i, field)
        return columns_of(Block(core), fields)

    def __len__(self) -> int:
        """Number of samples."""
        return int(lib.evenkeel_samples_count(core_of(self)))

    def __repr__(self) -> str:
        tokens = int(self.prompt_lengths.sum() + self.response_lengths.sum())
        return f"Samples({len(self)} samples, {tokens} tokens: {', '.join(self) or 'no fields'})"

    @property
    def ids(self) -> npt.NDArray[np.int64]:
        return self._shapes()["id"].copy()

    @property
    def groups(self) -> npt.NDArray[np.int64]:
        """The group number of each sample, [samples] int64. A sample that is a separate group has a negative number."""
        return self._shapes()["group"].copy()

    @property
    def fields(self) -> dict[str, Any]:
        """The fields by name: the concatenated rows of all samples, as views of this object's memory, which they keep
        alive.

        A ``rows`` field is a tuple (rows, offsets), a ``text`` field a list of str, and a ``bytes`` field a list of
        bytes."""
        return self._by_name()

    def rows_of(self, name: str) -> list[Any]:
        """Returns a field as a list with one entry per sample. Numbers are views; text is a str and bytes a bytes
        object."""
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


def core_of(samples: Any) -> _arrays.Handle:
    """Returns the library's object for these samples. Raises the error that occurred when they were built, if there is
    one."""
    if not isinstance(samples, Samples):
        raise TypeError(f"samples must be evenkeel.Samples, not {type(samples).__name__}")
    if isinstance(samples._core, _FailedBuild):
        raise samples._core.error
    return samples._core


def build_or_keep_error(build: Callable[[], Samples]) -> Samples:
    """Returns the samples that ``build`` returns. If it raises an exception, the returned samples keep it, as those of
    the constructor do."""
    return Samples._of(_try_build(lambda: core_of(build())), False)


def samples_of_error(error: BaseException) -> _arrays.Handle:
    """Returns samples for the library that represent an error: a step over them raises it on all ranks."""
    core = _create([], None, [], [])
    lib.evenkeel_samples_fail(core, _c.note(error, "samples", "could not be passed"))
    return core


def _try_build(build: Callable[[], _arrays.Handle]) -> _arrays.Handle | _FailedBuild:
    try:
        return build()
    except Exception as error:
        return _FailedBuild(error)


class _FailedBuild:
    """A placeholder for samples that could not be built. Reading the samples raises its error."""

    __slots__ = ("error",)

    def __init__(self, error: Exception) -> None:
        self.error = error


def _create(ids: Any, groups: Any, prompt_lengths: Any, response_lengths: Any) -> _arrays.Handle:
    numbers = _arrays.integers(ids, "ids")
    of = None if groups is None else _groups(groups)
    prompts, responses = _arrays.integers(prompt_lengths, "prompt_lengths"), _arrays.integers(response_lengths, "response_lengths")
    for name, entries in (("groups", of), ("prompt_lengths", prompts), ("response_lengths", responses)):
        if entries is not None and len(entries) != len(numbers):
            _c.refuse(name, f"has {counted(len(entries), 'entry', 'entries')} for {counted(len(numbers), 'id')}")
    pointer = _arrays.create(lib.evenkeel_samples_create, len(numbers), _c.address(numbers), None if of is None else _c.address(of),
                           _c.address(prompts), _c.address(responses))
    return _arrays.Handle(pointer, lib.evenkeel_samples_destroy)


def _groups(groups: Any) -> npt.NDArray[np.int64]:
    """Converts integers or texts to group numbers."""
    if isinstance(groups, (list, tuple)) and any(isinstance(entry, str) for entry in groups):
        if not all(isinstance(entry, str) for entry in groups):
            _c.refuse("groups", "mix strings with other types", "Pass only strings or only integers")
        return np.array([lib.evenkeel_group_of_uid(_c.encoded(entry), 0) for entry in groups], np.int64)
    numbers = _arrays.integers(groups, "groups")
    for i in np.flatnonzero(numbers < 0):
        numbers[i] = lib.evenkeel_group_of_uid(None, int(numbers[i]))
    return numbers


def _add(core: _arrays.Handle, name: str, kind: str, rows: Any) -> None:
    counts = None
    if RULES[kind].is_counted:
        rows, counts = count_rows(kind, name, rows)
    elif isinstance(rows, Sequence) and not isinstance(rows, (str, bytes)):
        rows = concatenate(rows, name)
    lib.evenkeel_samples_add(core, field_of(name, kind, _arrays.Rows(rows, name), counts))


def _tokens_first(rows: Any, name: str) -> Any:
    """Transposes [axes, tokens] to [tokens, axes], for one tensor of all samples or a list with one tensor per sample."""
    if isinstance(rows, Sequence) and not isinstance(rows, (str, bytes)):
        return [_tokens_first(of_sample, name) for of_sample in rows]
    shape = list(getattr(rows, "shape", ()))
    if len(shape) != 2:
        _c.raise_error("input", f"field {name!r}", f"has the shape {shape}", "Provide [axes, tokens]")
    tensor: Any = rows
    return tensor.T.contiguous() if _arrays.is_tensor(tensor) else np.ascontiguousarray(tensor.T)
