"""The exceptions that Evenkeel raises: one class per kind of error, with the text from C++.

A wrong *type* of argument, such as a string for a number, is a TypeError, as everywhere in Python.
"""

from __future__ import annotations

from typing import Any


class Error(Exception):
    """Base class of everything that Evenkeel raises for bad input, bad configuration and failed communication.

    ``str(error)`` is the one line that a user reads. Its parts are attributes:

    ``where``    the location: a file and line, a configuration key, an argument; may be empty
    ``message``  what is wrong, with the offending value and the limit that it exceeds
    ``hint``     what to do about it; may be empty
    ``rank``     the world rank that found it; -1 if every rank did
    ``kind``     a word for the class: config, input, limit, mesh, io, mpi or end
    """

    kind = "none"

    def __init__(self, text: str, where: str = "", message: str = "", hint: str = "", rank: int = -1) -> None:
        super().__init__(text)
        self.where = where
        self.message = message or text
        self.hint = hint
        self.rank = rank

    def __str__(self) -> str:
        return str(self.args[0])

    def __reduce__(self) -> tuple[Any, ...]:  # so that pickling keeps its parts
        return type(self), (self.args[0], self.where, self.message, self.hint, self.rank)


class ConfigError(Error, ValueError):
    """A configuration key is unknown, malformed or inconsistent."""

    kind = "config"


class InputError(Error, ValueError):
    """Input data is malformed: a wrong dtype or shape, a negative length, or inconsistent lists."""

    kind = "input"


class MissingFieldError(InputError, KeyError):
    """A requested field does not exist."""


class UnknownLengthError(InputError, TypeError):
    """The number of steps was requested but is unknown. Also a TypeError, so that list() and tqdm work without a length."""


class LimitError(Error, ValueError):
    """Data is well formed but exceeds a limit, such as a sample longer than the cap."""

    kind = "limit"


class MeshError(Error, ValueError):
    """The process grid does not fit the world."""

    kind = "mesh"


class IoError(Error, OSError):
    """A file or folder cannot be opened, read or written."""

    kind = "io"


class MpiError(Error, RuntimeError):
    """A call of the communication library failed."""

    kind = "mpi"


class EndOfSamples(Error):
    """Not an error: there are no more samples, so no step was made. A reader may raise it to end the steps."""

    kind = "end"
