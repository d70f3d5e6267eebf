"""Formats the imported configuration as YAML, and the results for its keys as a table."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from evenkeel.config_import.facts import DEFAULTS, Setting
from evenkeel.config_import.report import Imported
from evenkeel.config_import.values import printable

_WIDEST_VALUE = 24
_SECTIONS = list(dict.fromkeys(path.split(".")[0] for path in DEFAULTS))  # in the order of the reference page


def settings_yaml(title: str, settings: dict[str, Setting]) -> str:
    """Formats settings as YAML. Sections are in the order of the reference page, profiles and their sections in order of
    first appearance; each map is written once."""
    lines: list[tuple[str, str]] = []
    opened: list[str] = []  # the maps that contain the previous line
    for path in _in_order(list(settings)):
        *maps, key = path.split(".")
        depth = next((i for i, (a, b) in enumerate(zip_longest(opened, maps)) if a != b), len(maps))
        lines += [("  " * at + maps[at] + ":", "") for at in range(depth, len(maps))]
        lines.append(("  " * len(maps) + f"{key}: {settings[path].value}", settings[path].origin))
        opened = maps
    width = max((len(text) for text, comment in lines if comment), default=0)
    return (
        f"# Imported from a {title} configuration, which does not specify where samples come from. Set it:\n"
        "# source: {kind: jsonl, path: rollouts.jsonl}\n"
        + "".join(f"{text:{width}}  # {comment}\n" if comment else f"{text}\n" for text, comment in lines)
    )


def _in_order(paths: list[str]) -> list[str]:
    def group(path: str) -> str:
        """Returns the profile, otherwise the section."""
        return ".".join(path.split(".")[: 2 if path.startswith("profiles.") else 1])

    def section(path: str) -> str:
        return path.rpartition(".")[0]

    groups, sections = [group(path) for path in paths], [section(path) for path in paths]

    def rank(path: str) -> tuple[int, int, int]:
        first = path.split(".")[0]
        of_page = _SECTIONS.index(first) if first in _SECTIONS else len(_SECTIONS)
        return of_page, groups.index(group(path)), sections.index(section(path))

    return sorted(paths, key=rank)


def import_table(imported: Imported, width: int = 1 << 20) -> str:
    """Formats a result for a terminal: foreign key, value, resulting settings, note; then unused keys with the reason; then
    missing settings, and what Evenkeel would use. Lines have at most `width` characters, except for longer words."""
    files = [f"read {printable(file)}\n" for file in imported.files]
    files += [f"not found: {printable(file)}\n" for file in imported.lost_files]
    parts = ["".join(files)] if files else []
    if imported.keys:
        understood = [(key.foreign, key.value, key.evenkeel or ["(nothing to set)"], key.note) for key in imported.keys]
        parts.append(_table([imported.system, "value", "became", "note"], understood, width))
    if imported.unused:
        unused = [(key.foreign, key.value, [""], key.note) for key in imported.unused]
        parts.append(_table(["not used", "value", "", "why"], unused, width))
    to_set = "to be set: source.kind, and source.path for a file; the imported configuration does not specify where samples are"
    parts.append("".join(line + "\n" for line in _wrapped(to_set, width)))
    if imported.missing:
        missing = [(it.foreign, it.value, it.evenkeel, it.why) for it in imported.missing]
        parts.append(_table(["not found", "value", "Evenkeel would use", "why"], missing, width))
    return "\n".join(parts)


def _shorten(value: str) -> str:
    text = printable(value)
    if len(text.encode("utf-8")) <= _WIDEST_VALUE:
        return text
    return text.encode("utf-8")[: _WIDEST_VALUE - 3].decode("utf-8", "ignore") + "..."


_Keys = list[tuple[str, str, list[str], str]]


def _table(headings: list[str], keys: _Keys, width: int) -> str:
    """Formats a table. A key with several results has one row per result."""
    rows = []
    for foreign, value, became, note in keys:
        rows.append([printable(foreign), _shorten(value), became[0], printable(note)])
        rows += [["", "", more, ""] for more in became[1:]]
    columns = list(zip(headings, *rows))
    widths = [max(map(len, column)) for column in columns]
    least = [max(len(word) for cell in column for word in cell.split(" ")) for column in columns]
    if not _narrow_to(width, least, widths):
        return "".join([headings[0] + "\n", *(_as_list(row, headings, width) for row in rows)])
    return "".join(line for row in [headings, *rows] for line in _in_columns(row, widths))


def _narrow_to(width: int, least: list[int], widths: list[int]) -> bool:
    """Narrows the widest columns until all fit, none below its `least` width. Returns False if they cannot fit."""
    while sum(widths) + 2 * (sum(w > 0 for w in widths) - 1) > width:
        wide = [column for column in range(len(widths)) if widths[column] > least[column]]
        if not wide:
            return False
        widths[max(wide, key=widths.__getitem__)] -= 1
    return True


def _in_columns(row: list[str], widths: list[int]) -> Iterator[str]:
    shown = [(_wrapped(cell, width), width) for cell, width in zip(row, widths) if width]
    for line in zip_longest(*(lines for lines, _ in shown), fillvalue=""):
        cells = (f"{cell:{width}}" for cell, (_, width) in zip(line, shown))
        yield "  ".join(cells).rstrip(" ") + "\n"


def _as_list(row: list[str], headings: list[str], width: int) -> str:
    """Formats the first cell as a heading, and the others below it with their column names."""
    lines = _wrapped(row[0], width)
    for heading, cell in zip(headings[1:], row[1:]):
        if cell:
            named = f"{heading}: {cell}" if heading else cell
            lines += ["  " + line for line in _wrapped(named, max(width - 2, 1))]
    return "".join(line + "\n" for line in lines)


def _wrapped(text: str, width: int) -> list[str]:
    """Splits a text at spaces into lines of at most `width` characters; a longer word gets a line of its own."""
    lines: list[str] = []
    line: str | None = None
    for word in text.split(" "):
        if line is not None and len(line) + 1 + len(word) > width:
            lines.append(line.rstrip(" "))
            line = word
        else:
            line = word if line is None else f"{line} {word}"
    return [*lines, (line or "").rstrip(" ")]
