"""What generate_prototypes.py writes: constants, structures and callbacks of the C headers."""

from typing import Any

FUNCTIONS: dict[str, dict[str, tuple[Any, list[Any], bool]]]  # by header: result, arguments, whether the result is a status

def __getattr__(name: str) -> Any: ...
