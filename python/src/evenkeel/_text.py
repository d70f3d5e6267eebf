"""Words of messages. Standard library only."""

from __future__ import annotations


def counted(number: int, thing: str, things: str = "") -> str:
    """Formats "1 row", "2 rows". The plural is ``things``; by default, ``thing`` with an s."""
    return f"{number} {thing if number == 1 else things or thing + 's'}"


def describe_count(number: int, thing: str, things: str = "", *, only: bool = False) -> str:
    """Formats "there is 1 row", "there are only 2 rows"."""
    return f"there {'is' if number == 1 else 'are'} {'only ' if only else ''}{counted(number, thing, things)}"
