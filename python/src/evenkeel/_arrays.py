"""Converts arrays and tensors to NumPy arrays over the same memory, and back. Never imports torch itself: a caller who
passes a tensor has already imported it."""

from __future__ import annotations

import ctypes
import marshal
import operator
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from evenkeel import _c, errors
from evenkeel import _prototypes as c
from evenkeel._c import lib
from evenkeel._text import counted

CPU = 1  # the DLPack device type
PINNED = 3  # CUDA's page-locked memory, which the CPU can access directly


def is_tensor(value: Any) -> bool:
    """Returns whether the value is a torch.Tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def as_numpy(value: Any, name: str) -> npt.NDArray[Any]:
    """Returns an array or tensor as a NumPy array over the same memory; ranges and other sequences are copied. Raises an
    InputError with a hint for memory of another device, sparse tensors, and tensors whose gradients would be lost."""
    if isinstance(value, np.ma.MaskedArray):
        _c.raise_error("input", name, "is a masked array, whose mask would be lost", "Pass x.filled() or x.compressed()")
    if isinstance(value, np.ndarray):
        return value
    if is_tensor(value):
        return _bits_of_tensor(value, name)
    if hasattr(value, "__dlpack__"):
        return _from_dlpack(value, name)
    if isinstance(value, range):
        return np.asarray(value, dtype=np.int64)
    if isinstance(value, (str, set, frozenset, dict)):
        raise _wrong_type_error(value, name)
    try:
        return np.asarray(memoryview(value))
    except (TypeError, ValueError, BufferError):
        pass
    if hasattr(value, "__array__"):
        return np.asarray(value)
    if hasattr(value, "__len__") and hasattr(value, "__getitem__"):
        return np.asarray(list(value))
    raise _wrong_type_error(value, name)


def integers(values: Any, name: str) -> npt.NDArray[np.int64]:
    """Returns the integers of a list, a tuple, or a one-dimensional array or tensor with any integer dtype and strides,
    as a copy, which cannot change while the interpreter lock is released. Raises an InputError that names ``name`` for
    values that cannot be converted to int64 exactly."""
    if isinstance(values, (list, tuple)):
        return _integers_of_sequence(values, name)
    found = as_numpy(values, name)
    if found.ndim != 1:
        _c.raise_error("input", name, f"has {counted(found.ndim, 'dimension')}; it must have one")
    if found.size == 0:
        return np.empty(0, np.int64)
    is_float = is_tensor(values) and values.is_floating_point()  # bfloat16 and float8 are bits of integers in NumPy
    if is_float or found.dtype.kind not in "iu":
        conversion = "long()" if is_tensor(values) else "astype('int64')"
        dtype = str(values.dtype) if is_tensor(values) else found.dtype.name
        _c.raise_error("input", name, f"has the dtype {dtype!r}; it must contain whole numbers",
                       f"Convert it if that is right: {name}.{conversion}")
    copy = np.array(found, dtype=np.int64, order="C")
    if found.dtype.kind == "u" and found.dtype.itemsize == 8 and copy.min() < 0:
        at = int((copy < 0).argmax())
        _c.raise_error("input", f"{name}[{at}]", f"is {found[at]}, which does not fit into int64")
    return copy


def concatenate(lists: Iterable[Any], name: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Concatenates lists of integers. Returns the integers, and the offsets of the lists: [lists + 1]."""
    parts = [part if type(part) is np.ndarray and part.dtype == np.int64 and part.ndim == 1 else integers(part, f"{name}[{i}]")
             for i, part in enumerate(lists)]
    return np.concatenate(parts or [np.empty(0, np.int64)]), np.cumsum([0, *map(len, parts)], dtype=np.int64)


def _integers_of_sequence(values: list[Any] | tuple[Any, ...], name: str) -> npt.NDArray[np.int64]:
    numbers = small_integers(values)
    if numbers is None:
        # A copy, because accessing an entry may run code that changes a list.
        numbers = np.array([_integer_of(entry, f"{name}[{i}]") for i, entry in enumerate(tuple(values))], np.int64)
    return numbers


_MARSHALLED = np.dtype([("type", "u1"), ("value", "<i4")])


def small_integers(values: list[Any] | tuple[Any, ...]) -> npt.NDArray[np.int64] | None:
    """Like integers(), for ints of 32 bits only, but several times faster than NumPy; returns None for other values.
    Marshal writes such a list as 5 bytes, then "i" and 4 bytes for each int."""
    try:
        data = marshal.dumps(values, 2)
    except ValueError:
        return None
    if len(data) != 5 + 5 * len(values) or data[5::5] != b"i" * len(values):
        return None
    return np.frombuffer(data, _MARSHALLED, offset=5)["value"].astype(np.int64) if values else np.empty(0, np.int64)


def _integer_of(entry: Any, where: str) -> int:
    if isinstance(entry, bool) or not hasattr(type(entry), "__index__"):
        _c.raise_error("input", where, f"is {entry!r}, which is not a whole number")
    number = operator.index(entry)
    if not -(1 << 63) <= number < 1 << 63:
        _c.raise_error("input", where, f"is {number!r}, which does not fit into int64")
    return number


def small_integers_of(values: Any, name: str) -> npt.NDArray[np.int32]:
    """Like integers(), but returns int32. Raises InputError for numbers outside its range."""
    numbers = integers(values, name)
    small = numbers.astype(np.int32)
    if (wrong := small != numbers).any():
        at = int(wrong.argmax())
        _c.raise_error("input", f"{name}[{at}]", f"is {numbers[at]}, which does not fit into int32")
    return small


def ranges(begins: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Returns begin, begin + 1, ... for each range, one range after another."""
    ends = np.cumsum(sizes)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(begins - (ends - sizes), sizes)


def checked_index(index: int, size: int, name: str) -> int:
    """Returns the index, counted from 0; negative indices count from the end. Raises IndexError if it is out of range."""
    at = operator.index(index)
    if not -size <= at < size:
        raise IndexError(f"{name} {at} does not exist; the number of {name}{'es' if name.endswith('ch') else 's'} is {size}")
    return at % size


def readable(array: npt.NDArray[Any], name: str) -> Any:
    """Returns an array's memory in the form that the library reads. Raises InputError if the array is not contiguous or
    contains Python objects."""
    if array.dtype.hasobject:
        _c.raise_error("input", name, f"has the dtype {array.dtype.name!r}: Python objects cannot be moved as bytes",
                       "Pass an array of numbers")
    if not array.flags.c_contiguous:
        _c.raise_error("input", name, "is not contiguous, and evenkeel does not copy silently",
                       "Pass numpy.ascontiguousarray(x), or x.contiguous() of a tensor")
    return c.evenkeel_rows(_c.address(array), array.nbytes)


def writable(array: npt.NDArray[Any], name: str) -> Any:
    """Like readable(), for memory that the library writes. Also raises InputError for a read-only array."""
    rows = readable(array, name)
    if not array.flags.writeable:
        _c.raise_error("input", name, "is read-only", "Pass a writable one, such as a copy")
    return rows


def row_bytes_of(array: npt.NDArray[Any], leading: int) -> int:
    """Returns the bytes of one row of an array whose first ``leading`` dimensions index the row."""
    return int(array.itemsize * np.prod(array.shape[leading:], dtype=np.int64))


class Handle:
    """Owns an object of the library and destroys it. Pass the handle itself to functions, so that it stays alive during
    the call."""

    __slots__ = ("_as_parameter_", "_destroy")

    def __init__(self, pointer: Any, destroy: Any) -> None:
        self._as_parameter_, self._destroy = pointer, destroy

    def __del__(self) -> None:
        self._destroy(self._as_parameter_)


class _Memory(ctypes.c_char * sys.maxsize):  # type: ignore[misc]
    """A buffer over the whole address space. It begins at address 1 because NumPy treats NULL as a missing buffer. Arrays over it keep it
    alive, and it keeps the handle that owns their memory. NumPy creates them several times faster than from an __array_interface__."""

    owner: Handle


DTYPES = {  # the library's constant, and NumPy's type of the same size; NumPy has no bfloat16
    "bool": (c.EVENKEEL_BOOL, "|b1"), "uint8": (c.EVENKEEL_UINT8, "|u1"), "int8": (c.EVENKEEL_INT8, "|i1"),
    "int16": (c.EVENKEEL_INT16, "<i2"), "uint16": (c.EVENKEEL_UINT16, "<u2"), "int32": (c.EVENKEEL_INT32, "<i4"),
    "uint32": (c.EVENKEEL_UINT32, "<u4"), "int64": (c.EVENKEEL_INT64, "<i8"), "float16": (c.EVENKEEL_FLOAT16, "<f2"),
    "bfloat16": (c.EVENKEEL_BFLOAT16, "<i2"), "float32": (c.EVENKEEL_FLOAT32, "<f4"), "float64": (c.EVENKEEL_FLOAT64, "<f8"),
}
_TYPES = {number: np.dtype(name) for number, name in DTYPES.values()}
_SHAPES = [ctypes.c_int64 * dimensions for dimensions in range(5)]


def memory_of(owner: Handle) -> _Memory:
    """Returns a buffer for view_in() that keeps ``owner`` alive."""
    memory: _Memory = _Memory.from_address(1)
    memory.owner = owner
    return memory


def view(owner: Handle, address: int | None, shape: tuple[int, ...], dtype: int) -> npt.NDArray[Any]:
    """Returns a NumPy array over memory of a handle, which the array keeps alive."""
    return view_in(memory_of(owner), address, shape, dtype)


def view_in(memory: _Memory, address: int | None, shape: tuple[int, ...], dtype: int) -> npt.NDArray[Any]:
    """Like view(), for several arrays over memory of one handle."""
    if not address or 0 in shape:
        return np.empty(shape, _TYPES[dtype])
    return np.ndarray(shape, _TYPES[dtype], memory, address - 1)


def copy_of(address: int | None, size: int, dtype: Any) -> npt.NDArray[Any]:
    """Copies ``size`` elements from memory of the library."""
    if not address or not size:
        return np.empty(0, dtype)
    return np.frombuffer(ctypes.string_at(address, size * np.dtype(dtype).itemsize), dtype).copy()


def create(function: Any, *arguments: Any) -> ctypes.c_void_p:
    """Returns the handle that a library function writes to its last argument."""
    pointer = ctypes.c_void_p()
    function(*arguments, ctypes.byref(pointer))
    return pointer


def named_arrays(function: Any, *arguments: Any) -> dict[str, Any]:
    """Converts an evenkeel_arrays result of the library: arrays over its memory, and numbers, by name."""
    pointer = ctypes.c_void_p()
    function(*arguments, ctypes.byref(pointer))
    memory = memory_of(Handle(pointer, lib.evenkeel_arrays_destroy))
    return dict(_array_at(pointer, i, memory) for i in range(lib.evenkeel_arrays_count(pointer)))


class LazyArrays(dict[str, Any]):
    """A mapping that converts each array of an owner to NumPy on first access. ``places`` maps names to indices; all owners
    of a kind share it, and the first one fills it in."""

    __slots__ = ("_pointer", "_memory", "_places")

    def __init__(self, pointer: Any, owner: Handle, places: dict[str, int]) -> None:
        super().__init__()
        self._pointer, self._memory, self._places = pointer, memory_of(owner), places
        if not places:
            places.update({_array_at(pointer, i, self._memory)[0]: i for i in range(lib.evenkeel_arrays_count(pointer))})

    def __missing__(self, name: str) -> Any:
        self[name] = found = _array_at(self._pointer, self._places[name], self._memory)[1]
        return found


def _array_at(pointer: Any, index: int, memory: _Memory) -> tuple[str, Any]:
    """Returns the name and the NumPy array at an index; a single number is returned as an int."""
    found = c.evenkeel_array()
    lib.evenkeel_arrays_at(pointer, index, found)
    name = found.name.decode()
    if not found.num_dimensions:
        return name, ctypes.c_int64.from_address(found.data).value
    shape = tuple(_SHAPES[found.num_dimensions].from_address(found.shape))
    return name, view_in(memory, found.data, shape, found.dtype)


class Rows:
    """Rows of an array or a tensor as stored in memory. ``array`` is a NumPy array over that memory. It has the correct item
    size, but not the correct dtype if NumPy lacks it (bfloat16)."""

    __slots__ = ("array", "_tensor")

    def __init__(self, value: Any, name: str) -> None:
        self.array = as_numpy(value, name)
        if self.array.ndim == 0:
            _c.raise_error("input", name, "is a single number; it must have rows")
        self._tensor = value if is_tensor(value) else None

    def empty(self, *shape: int) -> Rows:
        """Returns uninitialized rows of this shape in the same library (NumPy or torch) and dtype."""
        if self._tensor is None:
            return Rows(np.empty(shape, self.array.dtype), "rows")
        return Rows(self._tensor.new_empty(shape), "rows")

    def shaped_as(self, value: Any, shape: tuple[int, ...], name: str) -> Rows:
        """Returns the caller's memory for a result as Rows. Raises InputError unless it has this shape and the same dtype."""
        rows = Rows(value, name)
        if tuple(rows.array.shape) != shape:
            _c.raise_error("input", name, f"has the shape {tuple(rows.array.shape)}; it must be {shape}")
        if rows.dtype != self.dtype:
            _c.raise_error("input", name, f"has the dtype {rows.dtype}; it must be {self.dtype}")
        return rows

    @property
    def value(self) -> Any:
        """The value that was passed in: the tensor or the array."""
        return self.array if self._tensor is None else self._tensor

    @property
    def dtype(self) -> Any:
        return self.value.dtype

    @property
    def trailing(self) -> tuple[int, ...]:
        """The dimensions of one row."""
        return tuple(self.array.shape[1:])

    def row_of(self, pad: Any, name: str, leading: int = 1) -> npt.NDArray[Any]:
        """Returns the bytes of one row filled with a number, or with one number per element, in this dtype; empty for
        zeros. A row consists of the dimensions after the first ``leading`` ones. Raises InputError for a number that this
        dtype cannot represent."""
        if isinstance(pad, (int, float)) and pad == 0:
            return np.empty(0, np.uint8)
        try:
            bits, kept = self._filled_row(tuple(self.array.shape[leading:]), pad, name)
        except (ValueError, RuntimeError) as error:
            if isinstance(error, errors.Error):
                raise
            shape = tuple(self.array.shape[leading:])
            _c.raise_error("input", name, f"{pad!r} cannot fill a row of shape {shape} and dtype {self.dtype}: {error}",
                           "Pass one number, or one per element of a row")
        if not kept:
            _c.raise_error("input", name, f"{pad} does not fit into the dtype {self.dtype}",
                           "Pass a value that this dtype can represent, or convert the rows first")
        return np.ascontiguousarray(bits).reshape(-1).view(np.uint8)

    def _filled_row(self, shape: tuple[int, ...], pad: Any, name: str) -> tuple[npt.NDArray[Any], bool]:
        """Returns the bits of a row of this shape filled with numbers, and whether the dtype can represent them. A float
        may be rounded to a smaller type."""
        if self._tensor is not None:
            wanted = sys.modules["torch"].as_tensor(pad)
            row = self._tensor.new_empty(shape)
            row.copy_(wanted)
            bits = _bits_of_tensor(row, name)
        else:
            wanted = np.asarray(pad)
            row = bits = np.empty(shape, self.array.dtype)
            with np.errstate(all="ignore"):
                np.copyto(row, wanted, casting="unsafe")
        if bool(((row == wanted) | (row != row)).all()):
            return bits, True
        is_float = "float" in str(self.dtype) and "float" in str(wanted.dtype)
        with np.errstate(all="ignore"):
            return bits, is_float and bool((row - row == 0).all())  # rounded, but not to infinity


def convert_like(array: npt.NDArray[Any], like: Any) -> Any:
    """Returns an array as a tensor over the same memory if ``like`` is a tensor, otherwise unchanged."""
    return sys.modules["torch"].from_numpy(array) if is_tensor(like) else array


def _bits_of_tensor(tensor: Any, name: str) -> npt.NDArray[Any]:
    torch = sys.modules["torch"]
    if tensor.device.type != "cpu":
        _c.raise_error("input", name, f"is on the device {tensor.device}; it must be in CPU memory", "Pass x.cpu()")
    if tensor.layout != torch.strided:
        _c.raise_error("input", name, f"has the layout {tensor.layout}; it must be dense", "Pass x.to_dense()")
    if tensor.requires_grad:
        _c.raise_error("input", name, "requires a gradient, which would be lost", "Pass x.detach()")
    if tensor.is_conj() or tensor.is_neg():
        _c.raise_error("input", name, "is a lazily conjugated or negated view", "Pass x.resolve_conj().resolve_neg()")
    _require_memory(tensor, name)
    array: npt.NDArray[Any]
    try:
        array = tensor.numpy()
    except (TypeError, RuntimeError) as error:
        bits = {1: torch.uint8, 2: torch.int16}.get(tensor.element_size())
        if bits is None or tensor.is_quantized:
            _c.raise_error("input", name, f"has the dtype {tensor.dtype}, which is not supported: {error}")
        array = tensor.view(bits).numpy()
    return array


def _require_memory(tensor: Any, name: str) -> None:
    """Requires that the tensor's storage has not been shrunk or freed; otherwise it would refer to memory it does not
    own."""
    if tensor.numel() == 0:
        return
    storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    if (tensor.storage_offset() + last + 1) * tensor.element_size() > storage.nbytes():
        _c.raise_error("input", name, "has lost its memory: its storage was resized", "Pass a copy that was made before that")


def _from_dlpack(value: Any, name: str) -> npt.NDArray[Any]:
    device = value.__dlpack_device__()[0]
    if device not in (CPU, PINNED):
        _c.raise_error("input", name, f"is on a device of DLPack type {int(device)}; it must be in CPU memory", "Copy it to CPU memory")
    try:
        return np.from_dlpack(value)
    except (BufferError, TypeError, RuntimeError) as error:
        _c.raise_error("input", name, f"cannot be read through DLPack: {error}")


def _wrong_type_error(value: Any, name: str) -> Exception:
    return TypeError(f"{name} has the type {type(value).__name__}; it must be an array, a tensor or a list")
