"""Named fields, as C++ hands them over and as users see them."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterable, Iterator, KeysView, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from evenkeel import _arrays, _core
from evenkeel.errors import Error, MissingFieldError

# What tensors of dtypes have that torch knows from 2.3 on only: the same numbers, copied.
WIDER = {"uint16": "int32", "uint32": "int64"}
_ALIGNMENT = 256  # of what stands in an arena, and of its size: MicroBatchArena::alignment


class FieldRule(NamedTuple):
    """The properties of a field kind; batch/field.hpp has their meaning."""

    name: str
    rows_per: str
    form: str

    @property
    def is_counted(self) -> bool:
        return self.rows_per == "own_count"

    @property
    def is_cut(self) -> bool:
        return self.rows_per in ("token", "response_token")


RULES = {name: FieldRule(name, rows_per, form) for name, rows_per, form in _core.field_rules}


class WithFields:
    """Samples with named fields, over memory that C++ owns."""

    __slots__ = ("_core", "_tensors", "_views", "_columns")

    def __init__(self, core: Any, tensors: bool) -> None:
        self._core, self._tensors = core, tensors
        self._views: dict[str, Any] | None = None
        self._columns: list[tuple[Any, ...]] | None = None

    @property
    def prompt_lengths(self) -> npt.NDArray[np.int64]:
        return self._core.prompt_lengths  # type: ignore[no-any-return]

    @property
    def response_lengths(self) -> npt.NDArray[np.int64]:
        return self._core.response_lengths  # type: ignore[no-any-return]

    def __getitem__(self, name: str) -> Any:
        fields = self._by_name()
        if name not in fields:
            where, message = f"field {name!r}", f"is not there; there are {', '.join(fields) or 'none'}"
            raise MissingFieldError(f"{where}: {message}", where, message)
        return fields[name]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name()

    def __iter__(self) -> Iterator[str]:
        """The names of its fields, as of a mapping."""
        return iter(self._by_name())

    def keys(self) -> KeysView[str]:
        """The names of its fields."""
        return self._by_name().keys()

    def get(self, name: str, default: Any = None) -> Any:
        """A field, or ``default`` where it is not there."""
        return self._by_name().get(name, default)

    def kinds(self) -> dict[str, str]:
        """By name, what a field has a row for: token, response_token, sample; or rows, text or bytes."""
        return {name: kind for name, _, kind, *_ in self._fields()}

    def axes_first(self, name: str) -> Any:
        """A field of rows of several elements, [rows, axes], as [axes, rows]: what models take as positions of several axes
        (M-RoPE). A view."""
        rows = self[name]
        if rows.ndim != 2:
            _core.raise_error("input", f"field {name!r}", f"has the shape {list(rows.shape)}", "Take a field of rows of axes")
        return rows.T

    def _by_name(self) -> dict[str, Any]:
        """What is handed out, the same objects each time."""
        if self._views is None:
            self._views = self._made(self._tensors)
        return self._views

    def _made(self, tensors: bool) -> dict[str, Any]:
        return {name: value_of(rows, dtype, kind, places, tensors) for name, dtype, kind, places, rows in self._fields()}

    def _fields(self) -> list[tuple[Any, ...]]:
        """Name, dtype, kind, places and rows of each field. C++ lends its memory to the first who asks, and to all others only
        to read, so it is asked once."""
        if self._columns is None:
            self._columns = self._core.fields()
        return self._columns


def value_of(rows: npt.NDArray[Any], dtype: str, kind: str, places: Any, tensors: bool) -> Any:
    """A field as users see it: rows, or with the places of samples where these count them, or a str or bytes a sample.
    Places are offsets [samples + 1] or, where equal values lie once, ranges [samples, 2]."""
    if places is None:
        return handed_out(rows, dtype, tensors)
    form = RULES[kind].form
    if form == "numbers":
        if tensors and places.ndim == 2:
            rows, places = _of_these_alone(rows, places)
        return handed_out(rows, dtype, tensors), handed_out(places, "int64", tensors)
    ranges = places if places.ndim == 2 else np.stack([places[:-1], places[1:]], 1)
    values = [rows[begin:end].tobytes() for begin, end in ranges.tolist()]
    return [value.decode() for value in values] if form == "text" else values


def _of_these_alone(rows: npt.NDArray[Any], ranges: npt.NDArray[np.int64]) -> tuple[Any, npt.NDArray[np.int64]]:
    """The rows of these samples out of those of a whole node, each value once: torch has no read-only tensors over them."""
    distinct, which = np.unique(ranges, axis=0, return_inverse=True)
    ends = np.cumsum(distinct[:, 1] - distinct[:, 0])
    mine = np.concatenate([rows[begin:end] for begin, end in distinct.tolist()])
    return mine, np.stack([ends - (distinct[:, 1] - distinct[:, 0]), ends], 1)[which.reshape(-1)]


def counted(kind: str, name: str, values: Any) -> tuple[Any, list[int]]:
    """Rows of all samples back to back and how many each has, of what users hand in: for ``rows`` one tensor a sample, or
    (rows, offsets); for ``text`` one str a sample, for ``bytes`` one bytes a sample."""
    form = RULES[kind].form
    if form == "numbers":
        return _counted_rows(name, values)
    wanted = str if form == "text" else bytes
    values = list(values)
    for value in values:
        if not isinstance(value, wanted):
            _core.raise_error("input", f"field {name!r}", f"has a {type(value).__name__} where a {wanted.__name__} is needed")
    try:
        parts = [value.encode() if form == "text" else value for value in values]
    except UnicodeEncodeError as error:
        _core.raise_error("input", f"field {name!r}", f"has a str that has no UTF-8: {error}")
    return np.frombuffer(b"".join(parts), np.uint8), [len(part) for part in parts]


def _counted_rows(name: str, values: Any) -> tuple[Any, list[int]]:
    if isinstance(values, tuple) and len(values) == 2 and len(np.shape(values[1])) == 1:
        rows, offsets = values
        offsets = _arrays.as_numpy(offsets, f"offsets of field {name!r}")
        if not len(offsets) or offsets[0] != 0 or (np.diff(offsets) < 0).any():
            _core.raise_error("input", f"field {name!r}", "has offsets that are not prefix sums: they start at 0 and never decrease")
        return rows, np.diff(offsets).tolist()
    if isinstance(values, tuple) and len(values) == 2 and np.shape(values[1])[1:] == (2,) != np.shape(values[0])[1:]:
        _core.raise_error("input", f"field {name!r}", "has rows with ranges of samples", "Pass one tensor a sample")
    parts = list(values)
    return joined(parts, name), [len(part) for part in parts]


def joined(rows: Sequence[Any], name: str) -> Any:
    """Rows of each sample back to back. Lists of numbers become arrays: whole numbers int64, real ones float32, and one real
    number makes all of them real, as in JSON lines."""
    if not rows:  # of any dtype: a rank without samples gets that of the others
        return np.empty(0, np.int64)
    if isinstance(rows[0], (bool, int, float)):
        return _numbers(rows, name)
    if all(isinstance(row, (list, tuple)) for row in rows):
        return _as_one_type([_numbers(row, name) for row in rows], name)
    if not (_arrays.is_tensor(rows[0]) or isinstance(rows[0], np.ndarray)):
        _core.raise_error("input", f"field {name!r}", f"is a list of {type(rows[0]).__name__}",
                          "Pass one tensor of all rows, or one tensor or list of numbers a sample")
    if len({str(row.dtype) for row in rows}) > 1:
        _core.raise_error("input", f"field {name!r}", f"has the dtypes {', '.join(sorted({str(r.dtype) for r in rows}))}")
    if _arrays.is_tensor(rows[0]):
        return sys.modules["torch"].cat(list(rows))
    return np.concatenate(rows)


def _numbers(values: Sequence[Any], name: str) -> npt.NDArray[Any]:
    """A list of numbers, or of equally long lists of them."""
    types = set(map(type, values))
    if bool in types and len(types) > 1:
        _refuse_mixed(name)
    try:
        array = np.asarray(values)
    except (ValueError, OverflowError) as error:
        _core.raise_error("input", f"field {name!r}", f"is no list of numbers: {error}")
    if array.size == 0:
        return array.astype(np.int64)
    if array.dtype.kind not in "bif":
        _core.raise_error("input", f"field {name!r}", "has what is no number, or above 64 bits, in its lists",
                          "Pass whole or real numbers, or a tensor")
    if array.dtype.kind != "f":
        return array
    if types != {float}:
        elements = np.asarray(values, object).ravel()
        _require_exact(np.asarray([each for each in elements if isinstance(each, (int, np.integer))], np.int64), name)
    with np.errstate(over="ignore"):
        rounded: npt.NDArray[Any] = array.astype(np.float32)
    if (np.isinf(rounded) != np.isinf(array)).any():
        _core.raise_error("input", f"field {name!r}", "has numbers beyond float32", "Pass a tensor of float64")
    return rounded


def _as_one_type(rows: list[npt.NDArray[Any]], name: str) -> npt.NDArray[Any]:
    full = [row for row in rows if row.size]
    kinds = {row.dtype.kind for row in full}
    if "b" in kinds and len(kinds) > 1:
        _refuse_mixed(name)
    if len({row.shape[1:] for row in full}) > 1:
        _core.raise_error("input", f"field {name!r}", "has rows of different shapes in its samples")
    if not full:
        return np.empty(0, np.int64)
    if "f" not in kinds:
        return np.concatenate(full)
    for row in full:
        if row.dtype.kind == "i":
            _require_exact(row, name)
    return np.concatenate([row.astype(np.float32) for row in full])


def _require_exact(whole: npt.NDArray[np.int64], name: str) -> None:
    """Refuses whole numbers that float32, which real numbers beside them become, would round."""
    with np.errstate(invalid="ignore"):
        rounded = whole[whole.astype(np.float32).astype(np.int64) != whole]
    if rounded.size:
        _core.raise_error("input", f"field {name!r}", f"has real numbers and {rounded[0]}, which float32 would round",
                          "Pass whole numbers only, or a tensor of float64")


def _refuse_mixed(name: str) -> NoReturn:
    _core.raise_error("input", f"field {name!r}", "mixes booleans and numbers")


def raise_as_ours(error: BaseException, where: str, message: str) -> NoReturn:
    """Raises the error as one of Evenkeel's, whose parts C++ hands on to other ranks."""
    if isinstance(error, Error):
        raise error
    text = "".join(traceback.format_exception_only(type(error), error)).strip().replace("\n", " ")
    _core.raise_error("input", where, f"{message}: {text}")


def dtype_word(rows: Any) -> str:
    """What C++ calls the dtype of an array or tensor."""
    return str(rows.dtype).removeprefix("torch.")


def handed_out(rows: npt.NDArray[Any], dtype: str, tensors: bool) -> Any:
    if not tensors:
        return _as_float32(rows) if dtype == "bfloat16" else rows
    import torch

    if not rows.flags.writeable:
        # torch has no read-only tensors: the memory is what ranks of a node share, and writing it ends the process.
        rows = rows.copy()
    if not hasattr(torch, dtype):
        rows = rows.astype(WIDER[dtype])
    tensor = torch.from_numpy(rows)
    return tensor.view(torch.bfloat16) if dtype == "bfloat16" else tensor


def _as_float32(bits: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Numbers of bfloat16, a dtype that NumPy lacks, as float32, which holds each of them. A copy."""
    return (bits.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def on_device(values: dict[str, Any], arena: npt.NDArray[np.uint8] | None, device: Any, non_blocking: bool) -> dict[str, Any]:
    """Tensors on a device, also those in tuples; all else as it is.

    What lies in the arena is copied at once, from the first to the last byte that is needed, and looked at there: it has the
    same dtypes and shapes. Other tensors are copied apart: those that ranks of a node share or that came in a later pass, a
    trainer's own, and those with gradients or strides.
    """
    import torch

    places: dict[int, int] = {}  # of tensors that lie in the arena, by id
    begin, end = 0, 0
    if arena is not None and torch.device(device).type != "cpu":
        first, size = arena.ctypes.data, len(arena)
        begin = size
        for tensor in _tensors_of(values.values(), torch.Tensor):
            if not tensor.is_contiguous() or tensor.requires_grad or tensor.device.type != "cpu":
                continue
            place = tensor.data_ptr() - first
            item = tensor.element_size()
            last = place + item * tensor.numel()
            if 0 <= place < last <= size and place % item == 0:
                places[id(tensor)] = place
                begin, end = min(begin, place), max(end, last)
    copies: dict[Any, Any] = {}  # what is copied, as elements of each dtype
    if places:
        begin -= begin % _ALIGNMENT
        part = torch.from_numpy(arena)[begin : end + -end % _ALIGNMENT]
        copies[part.dtype] = part.to(device, non_blocking=non_blocking)

    def moved(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(moved, value))
        if not isinstance(value, torch.Tensor):
            return value
        place = places.get(id(value))
        if place is None:
            return value.to(device, non_blocking=non_blocking)
        dtype = value.dtype
        elements = copies.get(dtype)
        if elements is None:
            elements = copies[dtype] = copies[torch.uint8].view(dtype)
        at = elements.storage_offset() + (place - begin) // value.element_size()
        return elements.as_strided(value.shape, value.stride(), at)

    return {name: moved(value) for name, value in values.items()}


def _tensors_of(values: Iterable[Any], tensor: type) -> Iterator[Any]:
    for value in values:
        if isinstance(value, tensor):
            yield value
        elif isinstance(value, tuple):
            yield from _tensors_of(value, tensor)
