"""Converts tensors between NumPy's files and safetensors."""

from __future__ import annotations

import contextlib
import json
import math
import os
import pathlib
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from evenkeel import _c
from evenkeel._text import counted

ENDINGS = (".npz", ".npy", ".safetensors")
_TYPES = {"BOOL": "?", "U8": "<u1", "I8": "<i1", "I16": "<i2", "U16": "<u2", "I32": "<i4", "U32": "<u4", "I64": "<i8",
          "U64": "<u8", "F16": "<f2", "F32": "<f4", "F64": "<f8"}
_NAMES = {np.dtype(code): name for name, code in _TYPES.items()}


def _refuse(where: str, what: str, advice: str = "") -> NoReturn:
    _c.raise_error("input", where, what, advice)


class Tensors:
    """Named tensors from files, and their metadata. Tensors in .npy files and safetensors are read on first access."""

    def __init__(self) -> None:
        self.metadata: dict[str, str] = {}
        self._open: dict[str, Any] = {}

    def __len__(self) -> int:
        return len(self._open)

    def items(self) -> Iterator[tuple[str, NDArray[Any]]]:
        for name, read in self._open.items():
            yield name, read()

    def add(self, where: str, name: str, read: Any) -> None:
        if name in self._open:
            _refuse(where, f"has a tensor {name!r}, but another tensor already has this name", "Rename one of them")
        self._open[name] = read

    def add_array(self, where: str, name: str, array: NDArray[Any]) -> None:
        """Adds a NumPy array. A single text becomes metadata; a list of texts, such as ``uid``, becomes bytes and offsets."""
        if array.dtype.kind == "U" and array.ndim == 0:
            self.metadata[name] = str(array)
        elif array.dtype.kind == "U" and array.ndim == 1:
            texts = [str(text).encode() for text in array]
            offsets = np.concatenate([[0], np.cumsum([len(text) for text in texts], dtype=np.int64)]).astype(np.int64)
            self.add(where, name, lambda: np.frombuffer(b"".join(texts), np.uint8))
            self.add(where, f"{name}_offsets", lambda: offsets)
        elif array.dtype.newbyteorder("<") in _NAMES:
            self.add(where, name, lambda: np.asarray(array))
        else:
            _refuse(where, f"has an array {name!r} of {array.dtype}, which safetensors cannot store",
                    "Convert it to a supported dtype, such as float32 or int64")


def _read_npz(path: str, tensors: Tensors) -> None:
    arrays = np.load(path, allow_pickle=False)
    for name in arrays.files:
        tensors.add_array(path, name, arrays[name])


def _read_npy(path: str, tensors: Tensors) -> None:
    tensors.add_array(path, pathlib.Path(path).stem, np.load(path, allow_pickle=False, mmap_mode="r"))


def _read_safetensors(path: str, tensors: Tensors) -> None:
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        if length > size - 8:
            raise ValueError(f"its header has {counted(length, 'byte')}, but the file has only {size}")
        header = json.loads(file.read(length))
    if not isinstance(header, dict):
        raise ValueError("its header is not a JSON object")
    tensors.metadata.update(header.pop("__metadata__", {}))
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        stored, shape = entry["dtype"], tuple(entry["shape"])
        if stored != "BF16" and stored not in _TYPES:
            _refuse(path, f"has a tensor {name!r} of {stored}, which NumPy does not have")
        dtype = np.dtype(_TYPES.get(stored, "<u2"))
        if end - begin != math.prod(shape) * dtype.itemsize or 8 + length + end > size:
            raise ValueError(f"tensor {name!r} does not have the offsets that its shape requires")

        def read(at: int = 8 + length + begin, dtype: np.dtype[Any] = dtype, shape: tuple[int, ...] = shape,
                 stored: str = stored) -> NDArray[Any]:
            array = np.fromfile(path, dtype, math.prod(shape), offset=at).reshape(shape)
            # float32 represents all values of bfloat16 in its upper half.
            return (array.astype(np.uint32) << 16).view(np.float32) if stored == "BF16" else array

        tensors.add(path, name, read)


def read_tensors(paths: Sequence[str]) -> Tensors:
    readers = {".npz": _read_npz, ".npy": _read_npy, ".safetensors": _read_safetensors}
    tensors = Tensors()
    for path in paths:
        suffix = pathlib.Path(path).suffix
        if suffix not in readers:
            _refuse(path, "does not end in .npz, .npy or .safetensors")
        try:
            readers[suffix](path, tensors)
        except OSError as error:
            _c.raise_error("io", path, f"cannot be read: {error.strerror or error}")
        except KeyError as error:
            _refuse(path, f"is damaged: a tensor has no {error.args[0]}", "Write the file again")
        except (ValueError, TypeError, struct.error, EOFError) as error:
            if "Object arrays" in str(error):
                _refuse(path, "has an array of Python objects, which is not supported", "Convert it to a dtype such as float32 or int64")
            _refuse(path, f"is damaged: {error}", "Write the file again")
        except Exception as error:
            if type(error).__module__ != "zipfile":
                raise
            _refuse(path, f"is damaged: {error}", "Write the file again")
    return tensors


def _write_safetensors(path: pathlib.Path, tensors: Tensors) -> None:
    header: dict[str, Any] = {"__metadata__": tensors.metadata} if tensors.metadata else {}
    at = 0
    for name, array in tensors.items():
        header[name] = {"dtype": _NAMES[array.dtype.newbyteorder("<")], "shape": list(array.shape),
                        "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, array in tensors.items():
            file.write(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).data)


def _write_npz(path: pathlib.Path, tensors: Tensors) -> None:
    texts: Mapping[str, NDArray[Any]] = {name: np.array(text) for name, text in tensors.metadata.items()}
    with open(path, "wb") as file:
        np.savez(file, **texts, **dict(tensors.items()))


def convert_tensors(paths: Sequence[str], target: pathlib.Path, *, overwrite: bool = False) -> int:
    """Writes the tensors of all files to one .safetensors or .npz file, which appears complete or not at all. Returns
    the number of tensors."""
    if target.exists() and not overwrite:
        _c.raise_error("io", str(target), "exists", "Choose another name, or pass overwrite (--overwrite)")
    tensors = read_tensors(paths)
    write = _write_npz if target.suffix == ".npz" else _write_safetensors
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        write(part, tensors)
        os.replace(part, target)
    except OSError as error:
        _c.raise_error("io", str(target), f"cannot be written: {error.strerror or error}")
    finally:
        with contextlib.suppress(FileNotFoundError):
            part.unlink()
    return len(tensors)
