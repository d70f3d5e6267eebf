"""Puts values into a store (`evenkeel store`) and gets them back, without copying and without pickle.

    store = evenkeel.values.ValueClient("http://127.0.0.1:8711")
    store.put([7, 9], {"input_ids": [np.array([5, 6, 7]), np.array([8])], "reward": np.array([0.5, 1.0], np.float32)})
    found = store.get([9, 7], ["reward", "input_ids"])
    found["reward"].stacked()      # array([1. , 0.5], dtype=float32)
    found["input_ids"][0]          # array([8])

A value has an index, a field's name, a dtype and a shape. This module needs NumPy but not the C library, and torch only for
values that are tensors."""

from __future__ import annotations

import dataclasses
import http.client
import json
import logging
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from evenkeel._answer_files import UNUSABLE, AnswerFileRefused, AnswerFiles, Bytes, FileAnswer
from evenkeel._http import Server
from evenkeel._text import counted
from evenkeel.errors import InputError, LimitError, MissingFieldError

__all__ = ["ValueClient", "Values"]

# Names of dtypes, as in safetensors, with NumPy's dtype and torch's name. NumPy lacks three, whose bits it gets as unsigned
# integers.
_DTYPES: dict[str, tuple[npt.DTypeLike, str]] = {
    "BOOL": (np.bool_, "bool"),
    "U8": (np.uint8, "uint8"),
    "I8": (np.int8, "int8"),
    "U16": (np.uint16, "uint16"),
    "I16": (np.int16, "int16"),
    "F16": (np.float16, "float16"),
    "BF16": (np.uint16, "bfloat16"),
    "U32": (np.uint32, "uint32"),
    "I32": (np.int32, "int32"),
    "F32": (np.float32, "float32"),
    "U64": (np.uint64, "uint64"),
    "I64": (np.int64, "int64"),
    "F64": (np.float64, "float64"),
    "C64": (np.complex64, "complex64"),
    "F8_E4M3": (np.uint8, "float8_e4m3fn"),
    "F8_E5M2": (np.uint8, "float8_e5m2"),
}
BYTES = "BYTES"
_ONLY_BITS = {"BF16", "F8_E4M3", "F8_E5M2"}
_ITEMSIZES = {BYTES: 1, **{name: np.dtype(dtype).itemsize for name, (dtype, _) in _DTYPES.items()}}
_OF_NUMPY = {np.dtype(dtype): name for name, (dtype, _) in _DTYPES.items() if name not in _ONLY_BITS}
_OF_TORCH = {f"torch.{word}": name for name, (_, word) in _DTYPES.items()}
_BYTES_OF_REQUEST = 256 << 20
_ALIGNMENT = 64
_JOINED = 64 << 10  # smaller pieces of a body are joined, because each piece costs a system call

_log = logging.getLogger("evenkeel")

Shape = tuple[int, ...]
Slices = Mapping[str, Mapping[str, Any] | Sequence[Mapping[str, Any]]]


def dtype_of(tensor: Any) -> str | None:
    """Returns the name of a tensor's dtype, or None if values cannot have it."""
    return _OF_TORCH.get(str(tensor.dtype))


class Values(Sequence[Any]):
    """Values of one field: ``values[i]`` is the array of the i-th index, or its bytes. Arrays are writable views of one
    buffer for all fields of a response. If the store is local, forked processes share that memory.

    ``dtype``   name of the dtype, as in safetensors, or BYTES; empty if the values have different dtypes
    ``dtypes``  one per value
    ``shapes``  one per value
    ``data``    the values' bytes, one after another: [bytes] uint8
    """

    __slots__ = ("dtypes", "shapes", "data", "_offsets")

    def __init__(self, dtypes: Sequence[str], shapes: Sequence[Shape], data: npt.NDArray[np.uint8]) -> None:
        self.dtypes, self.shapes, self.data = dtypes, shapes, data
        self._offsets: list[int] | None = None

    @property
    def dtype(self) -> str:
        return self.dtypes[0] if len(set(self.dtypes)) == 1 else ""

    def __len__(self) -> int:
        return len(self.shapes)

    @overload
    def __getitem__(self, at: int) -> Any: ...
    @overload
    def __getitem__(self, at: slice) -> list[Any]: ...
    def __getitem__(self, at: int | slice) -> Any:
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        dtype, data = self.dtypes[at], self.raw(at)
        return data.tobytes() if dtype == BYTES else data.view(_DTYPES[dtype][0]).reshape(self.shapes[at])

    def __add__(self, other: Values) -> Values:
        return Values([*self.dtypes, *other.dtypes], [*self.shapes, *other.shapes], np.concatenate([self.data, other.data]))

    def stacked(self) -> npt.NDArray[Any]:
        """Returns all values as one array [values, ...]. Raises InputError unless they have one dtype and one shape."""
        if not self.shapes:
            raise InputError("there are no values to stack")
        if self.dtype == BYTES:
            raise InputError("the values are bytes, which cannot be stacked. Read them one by one")
        if not self.dtype or len(set(self.shapes)) != 1:
            raise InputError(f"the values have {counted(len(set(self.dtypes)), 'dtype')} ({', '.join(sorted(set(self.dtypes)))}) and "
                             f"{counted(len(set(self.shapes)), 'shape')}; to stack them, they need one dtype and one shape")
        return self.data.view(_DTYPES[self.dtype][0]).reshape(len(self), *self.shapes[0])

    def flat_tensor(self) -> Any:
        """Returns the concatenated elements of all values as one torch tensor over the same memory."""
        return _as_tensor(self.data, self.dtype)

    def tensor(self, at: int) -> Any:
        """Returns a value as a torch tensor over the same memory."""
        return _as_tensor(self.raw(at), self.dtypes[at]).reshape(self.shapes[at])

    def raw(self, at: int) -> npt.NDArray[np.uint8]:
        """Returns the bytes of a value: a view unless its elements are not aligned."""
        if self._offsets is None:
            self._offsets = [0]
            for size in map(_size, self.dtypes, self.shapes):
                self._offsets.append(self._offsets[-1] + size)
        begin, end = self._offsets[at % len(self)], self._offsets[at % len(self) + 1]
        data = self.data[begin:end]
        return data if begin % _ITEMSIZES[self.dtypes[at]] == 0 else data.copy()


class ValueClient:
    """Puts, gets and clears values in a store, by index and field.

    ``url``       where the store listens, such as "http://127.0.0.1:8711", or "unix:PATH" for its socket on this machine: the
                  fastest, since large values do not travel through it
    ``token``     content of the store's token file
    ``ca``        a PEM file of certificates to trust for https instead of the system's
    ``timeout``   seconds to wait for one answer
    ``patience``  seconds to keep trying while the store is full or unreachable; None means forever

    Threads may share a client. Every call raises IoError when the patience has run out, ConfigError for a wrong token, and
    InputError or LimitError with the store's text if it rejects the request."""

    def __init__(self, url: str, *, token: str | None = None, ca: str | None = None, timeout: float = 60.0,
                 patience: float | None = 600.0) -> None:
        self._server = Server(url, token=token, ca=ca, timeout=timeout, patience=patience)
        self._files = AnswerFiles() if self._server.is_local and AnswerFiles.is_supported() else None

    def put(self, indexes: Sequence[int], fields: Mapping[str, Any]) -> int:
        """Stores values of several fields, and returns their number of bytes when they are durable. They become visible
        together, unless they have more than 256 MiB. Replaces values that the store already has.

        A field's values are an array or tensor [indexes, ...], a nested tensor, a list with one array or tensor per
        index, a list of ``bytes``, or ``Values``. Raises InputError for dtypes that cannot be stored, tensors with
        gradients, and a number of values that differs from the number of indexes."""
        return self._put([int(index) for index in indexes], {name: _column(name, rows, len(indexes)) for name, rows in fields.items()})

    def _put(self, indexes: list[int], columns: Mapping[str, _Column]) -> int:
        """Halves what exceeds the limits of a request; the parts then become visible one after another."""
        if len(indexes) < 2:
            return self._put_whole(indexes, columns)
        if sum(column.size for column in columns.values()) <= _BYTES_OF_REQUEST:
            try:
                return self._put_whole(indexes, columns)
            except LimitError:  # too many values
                pass
        half = len(indexes) // 2
        return (self._put(indexes[:half], {name: column.part(0, half) for name, column in columns.items()})
                + self._put(indexes[half:], {name: column.part(half, len(indexes)) for name, column in columns.items()}))

    def _put_whole(self, indexes: list[int], columns: Mapping[str, _Column]) -> int:
        head = {"indexes": indexes, "fields": {name: column.description() for name, column in columns.items()}}
        text = _json_bytes(head)
        text += b" " * (-(8 + len(text)) % _ALIGNMENT)
        body = _join_small([memoryview(len(text).to_bytes(8, "little") + text),
                            *(part for column in columns.values() for part in column.parts)])
        return int(self._server.request("POST", "/v1/values", body, headers={"Content-Type": "application/octet-stream"})["bytes"])

    def get(self, indexes: Sequence[int], fields: Sequence[str], *, slices: Slices | None = None) -> dict[str, Values]:
        """Returns values by field, in the order of the indexes. Raises MissingFieldError, which is a KeyError, if the
        store lacks a value.

        ``slices`` selects ranges of the values of a field, which arrive one after another: ``{"axis": 0, "ranges": [[0,
        4], [12, 16]]}``, or a list of such slices. ``ranges_per_index`` instead of ``ranges`` has one list per index."""
        return self._get([int(index) for index in indexes], list(fields), slices or {})

    def _get(self, indexes: list[int], fields: list[str], slices: Slices) -> dict[str, Values]:
        try:
            return self._get_whole(indexes, fields, slices)
        except LimitError:  # above the limit of a response
            if len(indexes) < 2:
                raise
        half = len(indexes) // 2
        first = self._get(indexes[:half], fields, _slices_of(slices, 0, half))
        second = self._get(indexes[half:], fields, _slices_of(slices, half, len(indexes)))
        return {name: first[name] + second[name] for name in fields}

    def _get_whole(self, indexes: list[int], fields: list[str], slices: Slices) -> dict[str, Values]:
        """Gets values through an answer file if the store can use one, otherwise through the socket."""
        answer = None if self._files is None else FileAnswer(self._files)

        def headers() -> dict[str, str]:
            return {"Content-Type": "application/json", **(answer.headers() if answer else {})}

        def read(response: http.client.HTTPResponse) -> dict[str, Values]:
            return _read_frame(response, answer.content(response) if answer else None, fields, len(indexes))

        query = _json_bytes({"indexes": indexes, "fields": fields, **({"slices": slices} if slices else {})})
        refusals = {404: MissingFieldError, UNUSABLE: AnswerFileRefused}
        try:
            found = dict(self._server.request("POST", "/v1/values/get", query, headers=headers, read=read, refusals=refusals))
        except AnswerFileRefused as error:
            if answer is None:
                raise
            if self._files is not None:  # no other thread has logged it
                _log.warning("%s: cannot share memory with this process, so values travel through the socket: %s", self._server.url, error)
            self._files = None
            return self._get_whole(indexes, fields, slices)
        if answer:
            answer.end()
        return found

    def clear(self, indexes: Sequence[int] | None = None, fields: Sequence[str] | None = None) -> int:
        """Removes values of these indexes and fields, by default all of them, and returns their number."""
        request: dict[str, Any] = {"all": True} if indexes is None else {"indexes": [int(index) for index in indexes]}
        if fields is not None:
            request["fields"] = list(fields)
        return int(self._post("/v1/values/clear", request)["cleared"])

    def status(self) -> dict[str, Any]:
        """Returns what the store contains and how much fits into it."""
        return dict(self._server.request("GET", "/v1/status"))

    def save(self, path: str) -> dict[str, Any]:
        """Writes all values to a file on the store's machine, and returns its numbers of indexes and bytes. The file must
        be in the folder that the store was started with (``--checkpoints``)."""
        return dict(self._post("/v1/values/save", {"path": path}))

    def load(self, path: str) -> dict[str, Any]:
        """Replaces all values by those of a file that save() wrote, and returns its numbers of indexes and bytes."""
        return dict(self._post("/v1/values/load", {"path": path}))

    def close(self) -> None:
        """Closes idle connections."""
        self._server.close()

    def _post(self, path: str, content: Mapping[str, Any]) -> Any:
        return self._server.request("POST", path, _json_bytes(content), headers={"Content-Type": "application/json"})


def _json_bytes(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def _size(dtype: str, shape: Shape) -> int:
    return _ITEMSIZES[dtype] * math.prod(shape)


def _total(dtypes: Sequence[str], shapes: Sequence[Shape]) -> int:
    if dtypes and dtypes.count(dtypes[0]) == len(dtypes):  # one look-up of the item size instead of one per value
        return _ITEMSIZES[dtypes[0]] * sum(map(math.prod, shapes))
    return sum(map(_size, dtypes, shapes))


def _as_tensor(data: npt.NDArray[np.uint8], dtype: str) -> Any:
    import torch

    to = getattr(torch, _DTYPES[dtype][1])
    return torch.from_numpy(data).view(to) if data.size else torch.empty(0, dtype=to)


@dataclasses.dataclass
class _Column:
    """Values of one field in the form that is sent: one piece of bytes for all of them, or one per value."""

    dtypes: Sequence[str]
    shapes: Sequence[Shape]
    parts: list[memoryview]

    @property
    def size(self) -> int:
        return sum(part.nbytes for part in self.parts)

    def description(self) -> dict[str, Any]:
        return {**_one_or_all("dtype", self.dtypes), **_one_or_all("shape", self.shapes)}

    def part(self, begin: int, end: int) -> _Column:
        dtypes, shapes = self.dtypes[begin:end], self.shapes[begin:end]
        if len(self.parts) == len(self.shapes):
            return _Column(dtypes, shapes, self.parts[begin:end])
        first = _total(self.dtypes[:begin], self.shapes[:begin])
        return _Column(dtypes, shapes, [self.parts[0][first : first + _total(dtypes, shapes)]])


def _column(name: str, rows: Any, count: int) -> _Column:
    if isinstance(rows, Values):
        column = _Column(rows.dtypes, rows.shapes, [rows.data.data])
    elif _is_tensor(rows) and rows.is_nested:
        column = _column_of_nested(name, rows)
    elif _is_tensor(rows) or isinstance(rows, np.ndarray):
        column = _column_of_rows(name, rows)
    elif isinstance(rows, Iterable):
        column = _column_of_list(name, list(rows))
    else:
        raise InputError(f"field {name!r}: has the type {type(rows).__name__}; it must have one value per index, "
                         "in a list, an array or a tensor")
    if len(column.shapes) != count:
        raise InputError(f"field {name!r}: has {counted(len(column.shapes), 'value')} for {counted(count, 'index', 'indexes')}")
    return column


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _column_of_rows(name: str, rows: Any) -> _Column:
    if not rows.ndim:
        raise InputError(f"field {name!r}: is a single number; it must have one value per index")
    dtype, part = _bytes_of(name, rows)
    return _Column([dtype] * len(rows), [tuple(rows.shape[1:])] * len(rows), [part])


def _column_of_nested(name: str, nested: Any) -> _Column:
    """Converts a nested tensor: a jagged one without holes to one piece, others to one piece per value."""
    import torch

    if nested.layout == getattr(torch, "jagged", None) and nested._ragged_idx == 1 and nested.lengths() is None:
        rows, offsets = nested.values(), nested.offsets().tolist()
        if offsets[0] == 0 and offsets[-1] == len(rows):
            dtype, part = _bytes_of(name, rows)
            rest = tuple(rows.shape[1:])
            shapes = [(end - begin, *rest) for begin, end in zip(offsets, offsets[1:])]
            return _Column([dtype] * len(shapes), shapes, [part])
    return _column_of_list(name, list(nested.unbind()))


def _column_of_list(name: str, rows: list[Any]) -> _Column:
    pairs = [_bytes_of(name, row) for row in rows]
    shapes = [(part.nbytes,) if dtype == BYTES else tuple(row.shape) for row, (dtype, part) in zip(rows, pairs)]
    return _Column([dtype for dtype, _ in pairs], shapes, [part for _, part in pairs])


def _bytes_of(name: str, value: Any) -> tuple[str, memoryview]:
    """Returns the dtype and bytes of an array, tensor or bytes, without a copy if it is contiguous memory of the CPU."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return BYTES, memoryview(value).cast("B")
    if isinstance(value, np.ma.MaskedArray):
        raise InputError(f"field {name!r}: has a masked array, whose mask would be lost. Pass x.filled() or x.compressed()")
    if not (_is_tensor(value) or isinstance(value, (np.ndarray, np.generic))):
        raise InputError(f"field {name!r}: has a value of the type {type(value).__name__}; arrays, tensors and bytes can be stored")
    dtype = dtype_of(value) if _is_tensor(value) else _OF_NUMPY.get(value.dtype)
    if dtype is None:
        raise InputError(f"field {name!r}: has the dtype {value.dtype}, which cannot be stored; {', '.join(_DTYPES)} can")
    if not _is_tensor(value):
        return dtype, np.ascontiguousarray(value).reshape(-1).view(np.uint8).data
    import torch

    if value.layout != torch.strided or value.is_nested:
        raise InputError(f"field {name!r}: has a tensor with the layout {value.layout}. Convert it to a dense tensor")
    if value.requires_grad:
        raise InputError(f"field {name!r}: has a tensor whose gradients would be lost. Pass tensor.detach()")
    return dtype, memoryview(value.cpu().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8).numpy())


def _slices_of(slices: Slices, begin: int, end: int) -> Slices:
    """Returns the slices of the indexes from begin to end."""
    lists = {name: [of_field] if isinstance(of_field, Mapping) else of_field for name, of_field in slices.items()}
    return {name: [{**cut, "ranges_per_index": cut["ranges_per_index"][begin:end]} if "ranges_per_index" in cut else cut for cut in of_field]
            for name, of_field in lists.items()}


def _one_or_all(name: str, items: Sequence[Any]) -> dict[str, Any]:
    """Returns {"dtype": item} if all items are equal, otherwise {"dtypes": [item, ...]}."""
    first = items[0] if items else None
    return {name: first} if items and all(item == first for item in items) else {name + "s": list(items)}


def _join_small(parts: Iterable[memoryview]) -> list[memoryview]:
    """Returns the same bytes in fewer pieces, by joining small adjacent pieces."""
    pieces: list[list[memoryview]] = []
    size = _JOINED
    for part in parts:
        if size + part.nbytes > _JOINED:
            pieces.append([])
            size = 0
        pieces[-1].append(part)
        size += part.nbytes
    return [piece[0] if len(piece) == 1 else memoryview(b"".join(piece)) for piece in pieces]


def _read_frame(response: http.client.HTTPResponse, file: Bytes | None, fields: list[str], count: int) -> dict[str, Values]:
    """Reads values into one buffer, in which every field is aligned. In an answer file, they already are."""
    prefix = 8
    size = _receive(response, prefix) if file is None else file[:prefix]
    begin_of_values = prefix + int.from_bytes(size.tobytes(), "little")
    text = _receive(response, begin_of_values - prefix) if file is None else file[prefix:begin_of_values]
    columns: dict[str, tuple[list[str], list[Shape], int, int]] = {}
    end = 0
    for name, field in json.loads(text.tobytes())["fields"].items():
        dtypes = field["dtypes"] if "dtypes" in field else [field["dtype"]] * count
        shapes: list[Shape] = [tuple(shape) for shape in field["shapes"]] if "shapes" in field else [tuple(field["shape"])] * count
        begin = end + -end % _ALIGNMENT
        end = begin + _require_available(response if file is None else None, _total(dtypes, shapes))
        columns[name] = dtypes, shapes, begin, end
    buffer = np.empty(end, np.uint8) if file is None else file[begin_of_values:]
    found = {name: Values(dtypes, shapes, buffer[begin:end]) for name, (dtypes, shapes, begin, end) in columns.items()}
    if file is None:
        for values in found.values():
            _read(response, values.data)
    is_wrong = len(buffer) != end or list(found) != fields or any(len(values) != count for values in found.values())
    if is_wrong or response.read(1):
        raise http.client.HTTPException("the response does not have exactly the values that were requested; its fields are: "
                                         f"{', '.join(found) or 'none'}")
    return found


def _receive(response: http.client.HTTPResponse, size: int) -> Bytes:
    array = np.empty(_require_available(response, size), np.uint8)
    _read(response, array)
    return array


def _require_available(response: http.client.HTTPResponse | None, size: int) -> int:
    """Returns the size, unless the response is shorter."""
    if response is not None and response.length is not None and size > response.length:
        raise http.client.IncompleteRead(b"", size - response.length)
    return size


def _read(response: http.client.HTTPResponse, into: npt.NDArray[np.uint8]) -> None:
    view = into.data
    while view:
        received = response.readinto(view)
        if not received:
            raise http.client.IncompleteRead(b"", len(view))
        view = view[received:]
