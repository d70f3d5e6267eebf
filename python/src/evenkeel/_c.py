"""Calls the package's C libraries through ctypes. Calls release the interpreter lock.

``lib`` has every function in evenkeel/c/evenkeel.h with its declared types, and ``service`` has the functions that
evenkeel/c/evenkeel_mpi.h adds. A status other than EVENKEEL_OK raises an exception from evenkeel.errors with the library's
text. Arrays are passed by ``address``; the caller keeps them alive during the call.

Callbacks do not raise: they return ``note(error)``. The exception raised for the library's error then has the original
exception as its cause, with its traceback."""

from __future__ import annotations

import ctypes
import operator
import pathlib
import traceback
from typing import Any, NoReturn

from evenkeel import _prototypes, errors

_CLASSES: dict[int, type[errors.Error]] = {
    _prototypes.EVENKEEL_ERROR_CONFIG: errors.ConfigError,
    _prototypes.EVENKEEL_ERROR_INPUT: errors.InputError,
    _prototypes.EVENKEEL_ERROR_LIMIT: errors.LimitError,
    _prototypes.EVENKEEL_ERROR_MESH: errors.MeshError,
    _prototypes.EVENKEEL_ERROR_IO: errors.IoError,
    _prototypes.EVENKEEL_ERROR_MPI: errors.MpiError,
    _prototypes.EVENKEEL_ERROR_ARGUMENT: errors.InputError,
    _prototypes.EVENKEEL_END_OF_SAMPLES: errors.EndOfSamples,
}
_STATUSES = {kind.kind: status for status, kind in _CLASSES.items() if status != _prototypes.EVENKEEL_ERROR_ARGUMENT}


def _raise_if_failed(status: int, function: Any, arguments: Any) -> None:
    if status:
        raise _last_error(status)


def _last_error(status: int) -> Exception:
    line = text(lib.evenkeel_last_error_message())
    if status == _prototypes.EVENKEEL_ERROR_OUT_OF_MEMORY:
        return MemoryError(line)
    if status not in _CLASSES:
        return RuntimeError(line)
    error = _CLASSES[status](line, text(lib.evenkeel_last_error_where()), text(lib.evenkeel_last_error_what()),
                             text(lib.evenkeel_last_error_hint()), lib.evenkeel_last_error_rank())
    if _noted and _noted[0][0] == error.message:
        error.__cause__ = _noted.pop()[1]
    return error


_noted: list[tuple[str, BaseException]] = []  # the last error noted, with its message


def note(error: BaseException, where: str, message: str = "") -> int:
    """Makes an exception the library's last error of this thread and returns its status. An exception that is not an
    evenkeel.errors.Error becomes an InputError at ``where``, with its text after ``message``."""
    if isinstance(error, errors.Error):
        status, parts = _STATUSES[error.kind], (error.where, error.message, error.hint)
    else:
        line = "".join(traceback.format_exception_only(type(error), error)).strip().replace("\n", " ")
        status, parts = _prototypes.EVENKEEL_ERROR_INPUT, (where, f"{message}: {line}" if message else line, "")
    _noted[:] = [(parts[1], error)]
    _set_last_error(status, *map(encoded, parts), -1)
    return status


def _load(name: str) -> Any:
    """Loads a library and declares the types of its functions."""
    library = ctypes.CDLL(str(pathlib.Path(__file__).parent / f"{name}.so"))
    for function, prototype in _prototypes.FUNCTIONS[pathlib.PurePath(name).name.removeprefix("lib")].items():
        _declare(getattr(library, function), *prototype)
    return library


def _declare(function: Any, result: Any, arguments: list[Any], is_status: bool) -> Any:
    function.restype, function.argtypes = result, arguments
    if is_status:
        function.errcheck = _raise_if_failed
    return function


lib: Any = _load("libevenkeel")
_set_last_error: Any = _declare(lib["evenkeel_set_last_error"], *_prototypes.FUNCTIONS["evenkeel"]["evenkeel_set_last_error"][:2], False)


class _Service:
    """The functions of libevenkeel_mpi, which is loaded on first use. If no MPI library is found, loads the variant without MPI that
    wheels contain; ``missing`` is then the reason."""

    def __init__(self) -> None:
        self.missing = ""
        self._library: Any = None

    def load(self) -> Any:
        if self._library is None:
            try:
                self._library = _load("libevenkeel_mpi")
            except OSError as reason:
                self._library = self._without_mpi(reason)
        return self._library

    def _without_mpi(self, reason: OSError) -> Any:
        try:
            alone = _load("_without_mpi/libevenkeel_mpi")
        except OSError:
            raise ImportError(f"the library of evenkeel's service cannot be loaded ({reason}). If it was not built, build evenkeel where "
                              "mpicxx is, on Debian with libopenmpi-dev; otherwise, install the MPI that it needs") from None
        self.missing = str(reason)
        return alone

    def __getattr__(self, name: str) -> Any:
        function = getattr(self.load(), name)
        setattr(self, name, function)  # bypasses __getattr__ from now on
        return function


service: Any = _Service()


def text(value: bytes) -> str:
    """Decodes a text from the library."""
    return value.decode("utf-8", "replace")


def encoded(value: str) -> bytes:
    """Encodes a text for the library."""
    return value.encode("utf-8", "backslashreplace")


def raise_error(kind: str, where: str, message: str, hint: str = "") -> NoReturn:
    """Raises the error of a kind (config, input, limit, mesh, io, mpi or end). The library composes its text from these
    parts."""
    if kind not in _STATUSES:
        raise ValueError(f"{kind} is not a kind of error")
    lib.evenkeel_set_last_error(_STATUSES[kind], encoded(where), encoded(message), encoded(hint), -1)
    raise AssertionError(f"{kind} is a status that is not an error")


def refuse(where: str, message: str, hint: str = "") -> NoReturn:
    """Raises InputError."""
    raise_error("input", where, message, hint)


def address(array: Any) -> int:
    """Returns the address of a NumPy array's first element."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array))  # three times as fast as __array_interface__
    except (TypeError, ValueError):  # empty, read-only or not contiguous
        return array.__array_interface__["data"][0]


def int64(value: Any) -> int:
    """Converts a value to int64_t. Raises TypeError if it is not an integer or does not fit."""
    return _signed_integer(value, 63)


def int32(value: Any) -> int:
    """Converts a value to int32_t. Raises TypeError like int64()."""
    return _signed_integer(value, 31)


def _signed_integer(value: Any, bits: int) -> int:
    number = operator.index(value)
    if not -(1 << bits) <= number < 1 << bits:
        raise TypeError(f"{number} does not fit into int{bits + 1}")
    return number


def value_of(words: dict[str, int], word: str, name: str) -> int:
    """Returns the constant for a word. Raises InputError, which lists the valid words, for any other word."""
    if not isinstance(word, str):
        raise TypeError(f"{name} must be a str, not {type(word).__name__}")
    if word not in words:
        raise_error("input", name, f"is '{word}'; it must be one of {', '.join(words)}")
    return words[word]
