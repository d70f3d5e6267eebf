"""The drop-in modules with ``strict_reference=True`` as the default, for users who select it by an import:

    from evenkeel.drop_in.strict.verl import rearrange_micro_batches

reproduces verl's code even if that violates verl's own documentation (docs/verl.md). Modules: verl, roll, mindspeed_rl and
prefix_grouper. Since the projects' code uses assertions, the InputErrors and LimitErrors raised here are AssertionErrors, too.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from evenkeel.errors import Error, InputError, LimitError


class AssertedInputError(InputError, AssertionError):
    """An InputError for code that expects an AssertionError."""


class AssertedLimitError(LimitError, AssertionError):
    """A LimitError for code that expects an AssertionError."""


def strictly(module: ModuleType, *more: str) -> dict[str, Any]:
    """Returns what the public names of a drop-in module, and ``more``, stand for, with ``strict_reference=True`` as the default."""
    return {name: _make_strict(getattr(module, name)) for name in (*module.__all__, *more)}


def _make_strict(thing: Any) -> Any:
    if isinstance(thing, type):
        made = {name: _make_strict_method(kept) for name, kept in vars(thing).items() if _has_choice(getattr(kept, "__func__", kept))}
        return type(thing.__name__, (thing,), {**made, "__doc__": thing.__doc__}) if made else thing
    return _with_assertion_errors(_with_default(thing) if _has_choice(thing) else thing)


def _make_strict_method(method: Any) -> Any:
    if isinstance(method, classmethod):
        return classmethod(_with_default(method.__func__))
    return _with_default(method)


def _has_choice(thing: Any) -> bool:
    return inspect.isfunction(thing) and "strict_reference" in inspect.signature(thing).parameters


def _with_default(function: Any) -> Any:
    @functools.wraps(function)
    def strict(*arguments: Any, **named: Any) -> Any:
        return function(*arguments, **{"strict_reference": True, **named})

    return strict


def _with_assertion_errors(function: Any) -> Any:
    @functools.wraps(function)
    def asserting(*arguments: Any, **named: Any) -> Any:
        try:
            made = function(*arguments, **named)
        except Error as error:
            raise _to_assertion(error) from error.__cause__
        return _items_with_assertion_errors(made) if inspect.isgenerator(made) else made

    return asserting


def _items_with_assertion_errors(items: Iterator[Any]) -> Iterator[Any]:
    try:
        yield from items
    except Error as error:
        raise _to_assertion(error) from error.__cause__


def _to_assertion(error: Error) -> Error:
    kind: type[Error] = {InputError: AssertedInputError, LimitError: AssertedLimitError}.get(type(error), type(error))
    return kind(error.args[0], error.where, error.message, error.hint, error.rank).with_traceback(error.__traceback__)
