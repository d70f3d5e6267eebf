"""Named fields, as the library returns them and as users see them."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Iterator, KeysView, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from evenkeel import _arrays, _c
from evenkeel import _prototypes as c
from evenkeel.errors import MissingFieldError

# dtypes that torch lacks before 2.3, and the wider ones to which their values are copied.
WIDER = {"uint16": "int32", "uint32": "int64"}
_ALIGNMENT = 256  # bytes, of an arena's tensors and its size: MicroBatchArena::alignment


class FieldRule(NamedTuple):
    """The properties of a field kind; documented in batch/field.hpp."""

    name: str
    value: int
    rows_per: str
    form: str

    @property
    def is_counted(self) -> bool:
        return self.rows_per == "own_count"

    @property
    def is_cut(self) -> bool:
        return self.rows_per in ("token", "response_token")


RULES = {rule[0]: FieldRule(*rule) for rule in (
    ("token", c.EVENKEEL_TOKEN, "token", "numbers"),
    ("response_token", c.EVENKEEL_RESPONSE_TOKEN, "response_token", "numbers"),
    ("sample", c.EVENKEEL_SAMPLE, "sample", "numbers"),
    ("rows", c.EVENKEEL_ROWS, "own_count", "numbers"),
    ("text", c.EVENKEEL_TEXT, "own_count", "text"),
    ("bytes", c.EVENKEEL_BYTES, "own_count", "bytes"),
)}
_KINDS = {rule.value: rule.name for rule in RULES.values()}
_DTYPES = {number: word for word, (number, _) in _arrays.DTYPES.items()}
SHAPE = np.dtype([("id", "<i8"), ("group", "<i8"), ("prompt", "<i8"), ("response", "<i8")])  # evenkeel_sample


@functools.lru_cache(maxsize=64)
def fields_of(count: int) -> Any:
    """Returns the type of an array of fields for the library to fill in. Cached, because only the garbage collector can free such a type."""
    return c.evenkeel_field * count


def field_of(name: str, kind: str, rows: _arrays.Rows, counts: list[int] | None) -> Any:
    """Returns a field for the library over the memory of ``rows``, which it keeps alive."""
    dtypes = {word: number for word, (number, _) in _arrays.DTYPES.items()}
    field = c.evenkeel_field(_c.encoded(name), _c.value_of(dtypes, str(rows.dtype).removeprefix("torch."), f"dtype of field '{name}'"),
                             _c.value_of({word: rule.value for word, rule in RULES.items()}, kind, f"kind of field '{name}'"))
    _arrays.readable(rows.array, name)
    trailing = np.array(rows.trailing, np.int64)
    field.rows, field.num_trailing, field.trailing = len(rows.array), len(trailing), _c.address(trailing)
    field.data = _c.address(rows.array)
    kept = [rows, trailing]
    if counts is not None:
        offsets = np.cumsum([0, *counts], dtype=np.int64)
        field.num_samples, field.offsets = len(counts), _c.address(offsets)
        kept.append(offsets)
    field.kept = kept  # alive as long as the structure
    return field


class Block:
    """Memory of an owner, and the one block that contains most arrays of a micro-batch, if there is one."""

    __slots__ = ("array", "_memory", "_first")

    def __init__(self, owner: _arrays.Handle, first: int | None = None, size: int = 0) -> None:
        self._memory, self._first = _arrays.memory_of(owner), first or 0
        self.array = _arrays.view_in(self._memory, first, (size,), c.EVENKEEL_UINT8)

    def view(self, address: int | None, shape: tuple[int, ...], dtype: int) -> npt.NDArray[Any]:
        """Returns an array over memory of the owner, which the array keeps alive."""
        return _arrays.view_in(self._memory, address, shape, dtype)

    def sums(self, address: int, size: int, dtype: int) -> npt.NDArray[Any]:
        """Returns prefix sums: a view if they are in the block, otherwise a copy."""
        found = self.view(address, (size,), dtype)
        return found if 0 <= address - self._first < self.array.size else found.copy()


def columns_of(block: Block, fields: Any) -> list[tuple[Any, ...]]:
    """Returns the name, dtype, kind, positions and rows of each field."""
    columns: list[tuple[Any, ...]] = []
    for field in fields:
        dtype, kind = field.dtype, _KINDS[field.kind]
        shape: tuple[int, ...] = (field.rows,)
        if field.num_trailing:
            shape += tuple(_arrays.copy_of(field.trailing, field.num_trailing, np.int64).tolist())
        places = _places_of(block, field) if RULES[kind].is_counted else None
        rows = block.view(field.data, shape, dtype)
        if field.is_shared:
            rows.flags.writeable = False
        columns.append((field.name.decode(), _DTYPES[dtype], kind, places, rows))
    return columns


def _places_of(block: Block, field: Any) -> npt.NDArray[np.int64]:
    """Returns the positions of each sample's rows: offsets [samples + 1], or begin and end [samples, 2]."""
    samples = field.num_samples
    if field.offsets:
        return block.sums(field.offsets, samples + 1, c.EVENKEEL_INT64)
    return _arrays.copy_of(field.ranges, 2 * samples, np.int64).reshape(-1, 2)


class WithFields:
    """Samples with named fields over memory of the library."""

    __slots__ = ("_tensors", "_views", "_columns")

    def __init__(self, tensors: bool) -> None:
        self._tensors = tensors
        self._views: dict[str, Any] | None = None
        self._columns: list[tuple[Any, ...]] | None = None

    def _shapes(self) -> npt.NDArray[Any]:
        """Returns ids, groups and lengths."""
        raise NotImplementedError

    def _ask_for_fields(self) -> list[tuple[Any, ...]]:
        """Returns the name, dtype, kind, positions and rows of each field."""
        raise NotImplementedError

    @property
    def prompt_lengths(self) -> npt.NDArray[np.int64]:
        return self._shapes()["prompt"].copy()

    @property
    def response_lengths(self) -> npt.NDArray[np.int64]:
        return self._shapes()["response"].copy()

    def __getitem__(self, name: str) -> Any:
        fields = self._by_name()
        if name not in fields:
            where, message = f"field {name!r}", f"does not exist; the fields are: {', '.join(fields) or 'none'}"
            raise MissingFieldError(f"{where}: {message}", where, message)
        return fields[name]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name()

    def __iter__(self) -> Iterator[str]:
        """Iterates over the names of its fields, like a mapping."""
        return iter(self._by_name())

    def keys(self) -> KeysView[str]:
        """Returns the names of the fields."""
        return self._by_name().keys()

    def get(self, name: str, default: Any = None) -> Any:
        """Returns a field, or ``default`` if it does not exist."""
        return self._by_name().get(name, default)

    def kinds(self) -> dict[str, str]:
        """Returns the kind of each field: token, response_token or sample, for which it has one row each; or rows, text or
        bytes."""
        return {name: kind for name, _, kind, *_ in self._fields()}

    def axes_first(self, name: str) -> Any:
        """Returns a view of a field [rows, axes] as [axes, rows], the layout in which models expect positions with several
        axes (M-RoPE)."""
        rows = self[name]
        shape = getattr(rows, "shape", None)  # fields of kind rows, text and bytes are not arrays
        if shape is None or len(shape) != 2:
            form = f"is of kind {self.kinds()[name]}" if shape is None else f"has the shape {list(shape)}"
            _c.raise_error("input", f"field {name!r}", f"{form}; it must be [rows, axes], with one row per token")
        return rows.T

    def _by_name(self) -> dict[str, Any]:
        """Returns the fields by name: the same objects on each call."""
        if self._views is None:
            self._views = self._make(self._tensors)
        return self._views

    def _make(self, tensors: bool) -> dict[str, Any]:
        return {name: value_of(rows, dtype, kind, places, tensors) for name, dtype, kind, places, rows in self._fields()}

    def _fields(self) -> list[tuple[Any, ...]]:
        """Returns the name, dtype, kind, positions and rows of each field. Cached, because the library gives write access
        to its memory only on the first request."""
        if self._columns is None:
            self._columns = self._ask_for_fields()
        return self._columns


def value_of(rows: npt.NDArray[Any], dtype: str, kind: str, places: Any, tensors: bool) -> Any:
    """Returns a field as users see it: rows; or, for fields counted per sample, rows and their positions; or one str or
    bytes per sample. Positions are offsets [samples + 1], or ranges [samples, 2] if equal values are stored once."""
    if places is None:
        return to_array_or_tensor(rows, dtype, tensors)
    form = RULES[kind].form
    if form == "numbers":
        if tensors and places.ndim == 2:
            rows, places = _copy_own_rows(rows, places)
        return to_array_or_tensor(rows, dtype, tensors), to_array_or_tensor(places, "int64", tensors)
    ranges = places if places.ndim == 2 else np.stack([places[:-1], places[1:]], 1)
    values = [rows[begin:end].tobytes() for begin, end in ranges.tolist()]
    return [value.decode() for value in values] if form == "text" else values


def _copy_own_rows(rows: npt.NDArray[Any], ranges: npt.NDArray[np.int64]) -> tuple[Any, npt.NDArray[np.int64]]:
    """Copies these samples' rows from those of a whole node, each distinct value once. Torch has no read-only tensors."""
    distinct, which = np.unique(ranges, axis=0, return_inverse=True)
    ends = np.cumsum(distinct[:, 1] - distinct[:, 0])
    mine = np.concatenate([rows[begin:end] for begin, end in distinct.tolist()])
    return mine, np.stack([ends - (distinct[:, 1] - distinct[:, 0]), ends], 1)[which.reshape(-1)]


def count_rows(kind: str, name: str, values: Any) -> tuple[Any, list[int]]:
    """Converts user values to the concatenated rows of all samples and the number of rows of each: for ``rows`` one
    tensor per sample, or (rows, offsets); for ``text`` one str per sample; for ``bytes`` one bytes object per sample.
    """
    form = RULES[kind].form
    if form == "numbers":
        return _count_number_rows(name, values)
    wanted = str if form == "text" else bytes
    values = list(values)
    for index, value in enumerate(values):
        if not isinstance(value, wanted):
            _c.raise_error("input", f"field {name!r}", f"value {index} has the type {type(value).__name__}; it must be {wanted.__name__}")
    try:
        parts = [value.encode() if form == "text" else value for value in values]
    except UnicodeEncodeError as error:
        _c.raise_error("input", f"field {name!r}", f"has a str that cannot be encoded as UTF-8: {error}")
    return np.frombuffer(b"".join(parts), np.uint8), [len(part) for part in parts]


def _count_number_rows(name: str, values: Any) -> tuple[Any, list[int]]:
    if isinstance(values, tuple) and len(values) == 2 and len(np.shape(values[1])) == 1:
        rows, offsets = values
        offsets = _arrays.as_numpy(offsets, f"offsets of field {name!r}")
        if not len(offsets) or offsets[0] != 0 or (np.diff(offsets) < 0).any():
            _c.raise_error("input", f"field {name!r}", "has offsets that are not prefix sums: they must start at 0 and never decrease")
        return rows, np.diff(offsets).tolist()
    if isinstance(values, tuple) and len(values) == 2 and np.shape(values[1])[1:] == (2,) != np.shape(values[0])[1:]:
        _c.raise_error("input", f"field {name!r}", "has ranges [samples, 2]; only offsets [samples + 1] are accepted",
                       "Pass (rows, offsets), or one tensor per sample")
    parts = list(values)
    return concatenate(parts, name), [len(part) for part in parts]


def concatenate(rows: Sequence[Any], name: str) -> Any:
    """Concatenates the rows of all samples. Lists of numbers become arrays: int64 if all numbers are integers,
    otherwise float32, as for JSON lines."""
    if not rows:  # any dtype will do: a rank without samples gets that of the others
        return np.empty(0, np.int64)
    if isinstance(rows[0], (bool, int, float)):
        return _numbers(rows, name)
    if all(isinstance(row, (list, tuple)) for row in rows):
        return _concatenate_lists([_numbers(row, name) for row in rows], name)
    if not all(_arrays.is_tensor(row) or isinstance(row, np.ndarray) for row in rows):
        types = sorted({type(row).__name__ for row in rows})
        _c.raise_error("input", f"field {name!r}", f"is a list that contains {' and '.join(types)} objects, which is not supported",
                          "Pass one tensor of all rows, or for each sample one tensor, or for each sample one list of numbers")
    if len({str(row.dtype) for row in rows}) > 1:
        _c.raise_error("input", f"field {name!r}", f"mixes the dtypes {', '.join(sorted({str(r.dtype) for r in rows}))}",
                       "Convert all of them to arrays or to tensors of one dtype")
    if _arrays.is_tensor(rows[0]):
        return sys.modules["torch"].cat(list(rows))
    return np.concatenate(rows)


def _numbers(values: Sequence[Any], name: str) -> npt.NDArray[Any]:
    """Converts a list of numbers, or of lists of numbers with equal lengths, to an array."""
    types = set(map(type, values))
    if bool in types and len(types) > 1:
        _refuse_mixed(name)
    try:
        array = np.asarray(values)
    except (ValueError, OverflowError) as error:
        _c.raise_error("input", f"field {name!r}", f"is not a list of numbers: {error}", "Pass a list of numbers, or a tensor")
    if array.size == 0:
        return array.astype(np.int64)
    if array.dtype.kind not in "bif":
        is_whole = all(isinstance(each, (int, np.integer)) for each in np.asarray(values, object).ravel())
        _c.raise_error("input", f"field {name!r}", f"has values in its lists that {'do not fit into int64' if is_whole else 'are not numbers'}",
                          "Pass real numbers, or whole numbers of at most 2^63 - 1")
    if array.dtype.kind != "f":
        return array
    if types != {float}:
        whole = [each for each in np.asarray(values, object).ravel() if isinstance(each, (int, np.integer))]
        if any(not -(2**63) <= each < 2**63 for each in whole):
            _c.raise_error("input", f"field {name!r}", "has a whole number that does not fit into int64", "Pass real numbers only")
        _require_exact(np.asarray(whole, np.int64), name)
    with np.errstate(over="ignore"):
        rounded: npt.NDArray[Any] = array.astype(np.float32)
    if (np.isinf(rounded) != np.isinf(array)).any():
        _c.raise_error("input", f"field {name!r}", "has numbers that do not fit into float32", "Pass a tensor of float64")
    return rounded


def _concatenate_lists(rows: list[npt.NDArray[Any]], name: str) -> npt.NDArray[Any]:
    full = [row for row in rows if row.size]
    kinds = {row.dtype.kind for row in full}
    if "b" in kinds and len(kinds) > 1:
        _refuse_mixed(name)
    if len({row.shape[1:] for row in full}) > 1:
        _c.raise_error("input", f"field {name!r}", "has rows of different shapes in its samples", "Give all rows the same shape")
    if not full:
        return np.empty(0, np.int64)
    if "f" not in kinds:
        return np.concatenate(full)
    for row in full:
        if row.dtype.kind == "i":
            _require_exact(row, name)
    return np.concatenate([row.astype(np.float32) for row in full])


def _require_exact(whole: npt.NDArray[np.int64], name: str) -> None:
    """Rejects integers that would be rounded when converted to float32 because the list also contains real numbers."""
    with np.errstate(invalid="ignore"):
        rounded = whole[whole.astype(np.float32).astype(np.int64) != whole]
    if rounded.size:
        _c.raise_error("input", f"field {name!r}", f"has real numbers and {rounded[0]}, which float32 would round",
                          "Pass whole numbers only, or a tensor of float64")


def _refuse_mixed(name: str) -> NoReturn:
    _c.raise_error("input", f"field {name!r}", "mixes booleans and numbers", "Pass only booleans or only numbers")


def to_array_or_tensor(rows: npt.NDArray[Any], dtype: str, tensors: bool) -> Any:
    if not tensors:
        return _as_float32(rows) if dtype == "bfloat16" else rows
    import torch

    if not rows.flags.writeable:
        # torch has no read-only tensors: this memory is shared by the ranks of a node, and writing to it ends the
        # process.
        rows = rows.copy()
    if not hasattr(torch, dtype):
        rows = rows.astype(WIDER[dtype])
    tensor = torch.from_numpy(rows)
    return tensor.view(torch.bfloat16) if dtype == "bfloat16" else tensor


def _as_float32(bits: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Converts bits of bfloat16, a dtype that NumPy lacks, to float32, which represents them exactly. Returns a copy."""
    return (bits.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def move_to_device(values: dict[str, Any], arena: npt.NDArray[np.uint8], device: Any, non_blocking: bool) -> dict[str, Any]:
    """Moves tensors to a device, including those in tuples; other values are unchanged.

    Tensors in the arena are copied together, from the first to the last byte needed, and become views of the copy with
    the same dtypes and shapes. Other tensors are copied separately: those shared by the ranks of a node or added in a
    later pass, the trainer's own, and those with gradients or strides.
    """
    import torch

    places: dict[int, int] = {}  # of tensors in the arena, by id
    begin, end = 0, 0
    if len(arena) and torch.device(device).type != "cpu":
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
    copies: dict[Any, Any] = {}  # the copied memory, as elements of each dtype
    if places:
        begin -= begin % _ALIGNMENT
        part = torch.from_numpy(arena)[begin : end + -end % _ALIGNMENT]
        copies[part.dtype] = part.to(device, non_blocking=non_blocking)

    def move(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(move, value))
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

    return {name: move(value) for name, value in values.items()}


def _tensors_of(values: Iterable[Any], tensor: type) -> Iterator[Any]:
    for value in values:
        if isinstance(value, tensor):
            yield value
        elif isinstance(value, tuple):
            yield from _tensors_of(value, tensor)
