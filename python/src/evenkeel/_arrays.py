"""Arrays and tensors as NumPy arrays over the same memory, and back. Imports torch for nobody: who hands in a tensor has
imported it."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from evenkeel import _core, errors

CPU = 1  # DLPack's number of the device type
PINNED = 3  # CUDA's page-locked memory, which the CPU reads as its own


def require_known_arrays(numpy: str, pybind11: tuple[int, int]) -> None:
    """NumPy 2 describes arrays differently. Where pybind11 does not know it, arrays would be handed out with wrong numbers."""
    if int(numpy.split(".")[0]) >= 2 and pybind11 < (2, 12):
        raise ImportError(
            f"evenkeel was built with pybind11 {pybind11[0]}.{pybind11[1]}, which misreads arrays of NumPy 2, and this is "
            f"NumPy {numpy}. Use a NumPy below 2, a wheel of evenkeel, or build it with pybind11 2.12 or later."
        )


require_known_arrays(np.__version__, _core.pybind11_version)


def is_tensor(value: Any) -> bool:
    """Whether it is a torch.Tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def as_numpy(value: Any, name: str) -> npt.NDArray[Any]:
    """The array or tensor as a NumPy array over the same memory. Raises InputError that says what to do where there is
    none: memory of another device, sparse tensors, tensors whose gradients would be lost."""
    if isinstance(value, np.ma.MaskedArray):
        _core.raise_error("input", name, "is a masked array, whose mask would be lost", "Pass x.filled() or x.compressed()")
    if isinstance(value, np.ndarray):
        return value
    if is_tensor(value):
        return _bits_of_tensor(value, name)
    if hasattr(value, "__dlpack__"):
        return _from_dlpack(value, name)
    if isinstance(value, range):
        return np.asarray(value, dtype=np.int64)
    if isinstance(value, (str, set, frozenset, dict)):
        raise _wrong_type(value, name)
    try:
        return np.asarray(memoryview(value))
    except (TypeError, ValueError, BufferError):
        pass
    if hasattr(value, "__array__"):
        return np.asarray(value)
    if hasattr(value, "__len__") and hasattr(value, "__getitem__"):
        return np.asarray(list(value))
    raise _wrong_type(value, name)


class Rows:
    """Rows of an array or a tensor as they lie in memory. ``array`` is a NumPy array over it, which has the right item
    size but, for dtypes that NumPy lacks (bfloat16), not the right dtype."""

    __slots__ = ("array", "_tensor")

    def __init__(self, value: Any, name: str) -> None:
        self.array = as_numpy(value, name)
        if self.array.ndim == 0:
            _core.raise_error("input", name, "is a single number; rows are needed")
        self._tensor = value if is_tensor(value) else None

    def empty(self, *shape: int) -> Rows:
        """New memory of this shape, of the same kind and dtype."""
        if self._tensor is None:
            return Rows(np.empty(shape, self.array.dtype), "rows")
        return Rows(self._tensor.new_empty(shape), "rows")

    def shaped_as(self, value: Any, shape: tuple[int, ...], name: str) -> Rows:
        """Memory that the caller brought for a result, of this shape, kind and dtype. Raises InputError otherwise."""
        rows = Rows(value, name)
        if tuple(rows.array.shape) != shape:
            _core.raise_error("input", name, f"has the shape {tuple(rows.array.shape)}; {shape} is needed")
        if rows.dtype != self.dtype:
            _core.raise_error("input", name, f"has the dtype {rows.dtype}; {self.dtype} is needed")
        return rows

    @property
    def value(self) -> Any:
        """What was handed in: the tensor, or the array."""
        return self.array if self._tensor is None else self._tensor

    @property
    def dtype(self) -> Any:
        return self.value.dtype

    @property
    def trailing(self) -> tuple[int, ...]:
        """The dimensions of one row."""
        return tuple(self.array.shape[1:])

    def row_of(self, pad: Any, name: str, leading: int = 1) -> npt.NDArray[Any]:
        """One row full of a number, or of one number an element, in this dtype. Empty for zeros. A row is what stands
        behind the first ``leading`` dimensions. Raises InputError for a number that this dtype cannot hold."""
        if isinstance(pad, (int, float)) and pad == 0:
            return np.empty(0, np.uint8)
        try:
            bits, kept = self._filled(tuple(self.array.shape[leading:]), pad, name)
        except (ValueError, RuntimeError) as error:
            if isinstance(error, errors.Error):
                raise
            _core.raise_error("input", name, f"cannot stand in a row: {error}")
        if not kept:
            _core.raise_error("input", name, f"{pad} does not fit into the dtype {self.dtype}")
        return np.ascontiguousarray(bits).reshape(-1).view(np.uint8)

    def _filled(self, shape: tuple[int, ...], pad: Any, name: str) -> tuple[npt.NDArray[Any], bool]:
        """A row of this shape full of numbers, and whether it holds what was asked for. A float may be rounded to one of
        fewer bits."""
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


def handed_out(array: npt.NDArray[Any], like: Any) -> Any:
    """An array as a tensor over the same memory where ``like`` is a tensor, else as it is."""
    return sys.modules["torch"].from_numpy(array) if is_tensor(like) else array


def _bits_of_tensor(tensor: Any, name: str) -> npt.NDArray[Any]:
    torch = sys.modules["torch"]
    if tensor.device.type != "cpu":
        _core.raise_error("input", name, f"is on the device {tensor.device}; memory of the CPU is needed", "Pass x.cpu()")
    if tensor.layout != torch.strided:
        _core.raise_error("input", name, f"has the layout {tensor.layout}; a dense tensor is needed", "Pass x.to_dense()")
    if tensor.requires_grad:
        _core.raise_error("input", name, "requires a gradient, which would be lost", "Pass x.detach()")
    if tensor.is_conj() or tensor.is_neg():
        _core.raise_error("input", name, "is a view with its sign flipped", "Pass x.resolve_conj().resolve_neg()")
    _require_memory(tensor, name)
    array: npt.NDArray[Any]
    try:
        array = tensor.numpy()
    except (TypeError, RuntimeError) as error:
        bits = {1: torch.uint8, 2: torch.int16}.get(tensor.element_size())
        if bits is None or tensor.is_quantized:
            _core.raise_error("input", name, f"has the dtype {tensor.dtype}, which cannot be moved: {error}")
        array = tensor.view(bits).numpy()
    return array


def _require_memory(tensor: Any, name: str) -> None:
    """A tensor whose storage was made smaller or freed since points to memory that is not its own."""
    if tensor.numel() == 0:
        return
    storage = tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    if (tensor.storage_offset() + last + 1) * tensor.element_size() > storage.nbytes():
        _core.raise_error("input", name, "has lost its memory: its storage was resized")


def _from_dlpack(value: Any, name: str) -> npt.NDArray[Any]:
    device = value.__dlpack_device__()[0]
    if device not in (CPU, PINNED):
        _core.raise_error("input", name, f"is on a device that DLPack numbers {int(device)}; memory of the CPU is needed")
    try:
        return np.from_dlpack(value)
    except (BufferError, TypeError, RuntimeError) as error:
        _core.raise_error("input", name, f"cannot be read through DLPack: {error}")


def _wrong_type(value: Any, name: str) -> Exception:
    return TypeError(f"{name} is a {type(value).__name__}; an array, a tensor or a list is needed")
