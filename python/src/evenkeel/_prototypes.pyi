"""Constants, structures and callbacks of the C headers, written by generate_prototypes.py."""

from typing import Any

FUNCTIONS: dict[str, dict[str, tuple[Any, list[Any], bool]]]  # by header: result, arguments, whether the result is a status

def __getattr__(name: str) -> Any: ...
