"""The drop-in modules with ``strict_reference=True`` as the default, for those who choose by an import line:

    from evenkeel.drop_in.strict.verl import rearrange_micro_batches

gives what verl's code does, also where that breaks verl's own documentation (docs/drop-ins.md). Modules: verl, roll,
mindspeed_rl and prefix_grouper.
"""

from __future__ import annotations

import functools
import inspect
from types import ModuleType
from typing import Any


def strictly(module: ModuleType, *more: str) -> dict[str, Any]:
    """The public names of a drop-in module, and ``more``, with that default."""
    return {name: _strict(getattr(module, name)) for name in (*module.__all__, *more)}


def _strict(thing: Any) -> Any:
    if isinstance(thing, type):
        made = {name: _strict_method(kept) for name, kept in vars(thing).items() if _has_choice(getattr(kept, "__func__", kept))}
        return type(thing.__name__, (thing,), {**made, "__doc__": thing.__doc__}) if made else thing
    return _with_default(thing) if _has_choice(thing) else thing


def _strict_method(method: Any) -> Any:
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
