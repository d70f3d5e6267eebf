"""Values of a foreign configuration: their text and their position."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Dict, List, NoReturn, Tuple, Union

import yaml

from evenkeel.errors import ConfigError

MOST_BYTES = 1 << 20
MOST_VALUES = 100_000
DEEPEST = 64

Path = Tuple[str, ...]  # the keys that lead to a value; the keys of a list's entries are "0", "1", ...
Data = Union[None, str, List["Value"], Dict[str, "Value"]]


class Lost(Exception):
    """A value cannot be determined; the text is the reason."""


@dataclass
class Value:
    """A value from a file, the command line, a reference or the environment.

    Scalars keep their text, so that the report shows what the user wrote.
    """

    data: Data = None
    place: str = ""  # "FILE:LINE" or "--override KEY=VALUE", for messages
    quoted: bool = False  # a quoted scalar is a text, regardless of its content
    # For a value whose references were followed:
    written: str = ""  # as in the file
    via: str = ""  # "follows data.max_response_length"
    missing: str = ""  # why the reference cannot be resolved

    def __str__(self) -> str:
        """Returns the text of the value within a surrounding text. Raises Lost if it has none."""
        if self.missing:
            raise Lost(self.missing)
        if isinstance(self.data, (list, dict)):
            raise Lost("has a section in the middle of a string")
        return "None" if self.data is None else self.data

    def add_via(self, via: str) -> Value:
        if via and not self.missing:
            self.via = f"{via}, {self.via}" if self.via else via
        return self


def refuse(where: str, message: str, hint: str = "") -> NoReturn:
    raise ConfigError(printable(f"{where}: {message}" + (f". {hint}" if hint else "")), where, message, hint)


def dotted(path: Path) -> str:
    return ".".join(path)


def split_path(text: str) -> Path:
    return tuple(text.split(".")) if text else ()


def starts_with(path: Path, prefix: Path) -> bool:
    return path[: len(prefix)] == prefix


def is_at_or_below(path: str, prefix: str) -> bool:
    return path.startswith(prefix) and path[len(prefix) : len(prefix) + 1] in ("", ".", "[")


_NO_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


def printable(text: str) -> str:
    """Makes a text safe for a terminal: control characters and bytes that are not UTF-8 become \\xNN, line ends \\n."""
    for character, name in (("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        text = text.replace(character, name)
    return _NO_TEXT.sub(lambda m: "".join(f"\\x{byte:02x}" for byte in m[0].encode("utf-8", "surrogateescape")), text)


def one_line(value: Value) -> str:
    """Returns the value as YAML, on one line."""
    text = "null" if value.data is None else _flow(value.data) if not isinstance(value.data, str) else value.data
    return re.sub("[\n\r\t]", " ", text)


def _flow(data: Data) -> str:
    if data is None:
        return "~"
    if isinstance(data, list):
        return "[" + ", ".join(_flow(item.data) for item in data) + "]"
    if isinstance(data, dict):
        return "{" + ", ".join(f"{_flow(key)}: {_flow(value.data)}" for key, value in data.items()) + "}"
    is_plain = re.fullmatch(r"(?![-?:]( |$)|[#&*!|>'\"%@`,\s])([^\x00-\x1f\[\]{},#:]|:(?! |$))+(?<! )", data)
    return data if is_plain and data not in ("~", "null", "Null", "NULL") else json.dumps(data, ensure_ascii=False)


class _Reader:
    """Converts YAML nodes to values with their line numbers."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0

    def place(self, node: yaml.Node) -> str:
        return f"{self.name}:{node.start_mark.line + 1}"

    def read(self, node: yaml.Node, path: str = "", depth: int = 0) -> Value:
        self.count += 1
        if self.count > MOST_VALUES or depth > DEEPEST:
            refuse(
                f"{self.place(node)}:{node.start_mark.column + 1}",
                f"has more than {MOST_VALUES} values or {DEEPEST} levels, aliases followed",
                "Check whether an alias expands to too many values here, or refers to something that contains it",
            )
        value = Value(place=self.place(node))
        if isinstance(node, yaml.MappingNode):
            value.data = self.read_map(node, path, depth)
        elif isinstance(node, yaml.SequenceNode):
            value.data = [self.read(item, path, depth + 1) for item in node.value]
        elif node.tag != "tag:yaml.org,2002:null":
            value.data = node.value
            value.quoted = node.style is not None
        return value

    def read_map(self, node: yaml.MappingNode, path: str, depth: int) -> dict[str, Value]:
        entries: dict[str, Value] = {}
        merged: list[Value] = []
        for key, below in node.value:
            is_word = isinstance(key, yaml.ScalarNode)
            where = f"{path}.{key.value}" if path and is_word else str(key.value) if is_word else "?"
            if not is_word:
                found = "a list" if isinstance(key, yaml.SequenceNode) else "a map"
                refuse(self.place(key) + (f": {path}" if path else ""), f"expected a word as the key, found {found}")
            value = self.read(below, where, depth + 1)
            value.place = self.place(key)
            if key.value == "<<" and key.style is None:
                merged += value.data if isinstance(value.data, list) else [value]
                continue
            if key.value in entries:
                refuse(f"{self.place(key)}: {where}", "the key is given twice", "Remove one of them")
            entries[key.value] = value
        for base in merged:  # YAML 1.1's "<<: *other" adds the keys that the map does not have
            if not isinstance(base.data, dict):
                refuse(f"{base.place}: <<", "only maps can be merged into a map", "Refer to a map, or leave the key out")
            for name, value in base.data.items():
                entries.setdefault(name, value)
        return entries


def read_yaml(text: str, name: str) -> Value:
    """Parses the only YAML document in `text`. Raises ConfigError for malformed YAML, and for surrogates (not UTF-8)."""
    text = text[1:] if text.startswith("\ufeff") else text
    if len(text) > MOST_BYTES:
        refuse(name, f"is larger than {MOST_BYTES} bytes, the limit for a configuration", "Check that it is the right file")
    wrong = _NO_TEXT.search(text)
    if wrong:
        before = text[: wrong.start()].split("\n")
        refuse(
            f"{name}:{len(before)}:{len(before[-1]) + 1}",
            f"malformed YAML: the byte shown as {printable(wrong[0])} is not text",
            "Save the file as UTF-8; in double quotes, \\xNN stands for a control character",
        )
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        return Value(place=name) if node is None else _Reader(name).read(node)
    except RecursionError:
        refuse(name, "is nested too deeply to be a configuration", "Check that it is the right file")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        if error.context == "expected a single document in the stream":
            refuse(where, "expected one YAML document, found a second one", "Remove the second one")
        line = text.split("\n")[mark.line] if mark else ""
        tabbed = re.match(r" *\t", line) is not None
        hint = "Indent with spaces: a tab is in front of the first word of the line" if tabbed else ""
        refuse(where, f"malformed YAML: {error.problem}", hint)


def merge(under: Value, over: Value) -> Value:
    """Returns `under` overridden by `over`: maps are merged key by key, everything else is replaced."""
    if not isinstance(under.data, dict) or not isinstance(over.data, dict):
        return over
    for key, value in over.data.items():
        under.data[key] = merge(under.data[key], value) if key in under.data else value
    return under


def merge_at(root: Value, path: Path, value: Value) -> None:
    """Merges `value` into the map at `path`, which is created if it is missing."""
    at = root
    for depth, part in enumerate(path):
        if at.data is None:
            at.data = {}
        if not isinstance(at.data, dict):
            refuse(value.place, f"cannot set {dotted(path)}, because {dotted(path[:depth])} is not a section")
        if depth + 1 == len(path):
            at.data[part] = merge(at.data[part], value) if part in at.data else value
            return
        at = at.data.setdefault(part, Value(place=value.place))
    merge(root, value)


@dataclass
class ForeignKey:
    """A key of a foreign configuration, with its full path. Its value is a scalar, a list or an empty map."""

    path: str  # "rl_config.use_dynamic_bsz"
    value: Value  # with references followed

    @property
    def where(self) -> str:
        return f"{self.value.place}: {self.path}"

    @property
    def text(self) -> str:
        return one_line(self.value)

    @property
    def written(self) -> str:
        return one_line(Value(self.value.written)) if self.value.written else self.text


def leaves(value: Value, path: str = "") -> Iterator[ForeignKey]:
    if isinstance(value.data, dict) and value.data:
        for key, entry in value.data.items():
            yield from leaves(entry, f"{path}.{key}" if path else key)
    elif isinstance(value.data, list) and any(isinstance(item.data, dict) for item in value.data):
        for index, item in enumerate(value.data):
            yield from leaves(item, f"{path}[{index}]")
    else:
        yield ForeignKey(path, value)


# Scalars as PyYAML and OmegaConf read them (YAML 1.1).
_INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0o?([0-7]+)|(0|[1-9][0-9]*))")
_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
_FLAGS = {
    form: flag
    for flag, words in ((True, ("true", "yes", "on")), (False, ("false", "no", "off")))
    for word in words
    for form in (word, word.capitalize(), word.upper())
}


def as_number(data: Any) -> int | float | None:
    """Parses 1_024, 0x400 or 8e3. Returns an int if it is written as one, and None if it is not a number."""
    text = data.replace("_", "") if isinstance(data, str) else ""
    integer = _INTEGER.fullmatch(text)
    if integer:
        digits = next((d, base) for d, base in zip(integer.groups()[1:], (16, 2, 8, 10)) if d is not None)
        number = int(*digits) * (-1 if integer[1] == "-" else 1)
        return number if abs(number) < 1 << 63 else float(number)
    number_of = float(text) if _NUMBER.fullmatch(text) else None
    return None if number_of in (float("inf"), float("-inf")) else number_of


def as_integer(value: Value) -> int | None:
    """Like as_number(), but also returns an int for 8.0e3, and None for fractions."""
    number = as_number(value.data)
    if isinstance(number, float):
        return int(number) if number.is_integer() and abs(number) <= 1 << 53 else None
    return number


def as_flag(value: Value) -> bool | None:
    return _FLAGS.get(value.data) if isinstance(value.data, str) else None
