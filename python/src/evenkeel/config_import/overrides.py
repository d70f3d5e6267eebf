"""Hydra's overrides: key=value, +key=value, ++key=value, ~key, ~key=value."""

from __future__ import annotations

import re
from dataclasses import dataclass

from evenkeel.config_import.references import LostPart, literal
from evenkeel.config_import.values import Path, Value, dotted, merge_at, refuse, split_path, starts_with

EXPECTED = "expected Hydra's KEY=VALUE, +KEY=VALUE, ++KEY=VALUE or ~KEY"


@dataclass
class Override:
    kind: str  # "", "+", "++" or "~"
    key: str  # "a.b", or a group: "optim", "actor@actor_rollout_ref.actor"
    value: Value  # null if it has no value
    place: str  # "--override KEY=VALUE"

    @property
    def names_group(self) -> bool:
        return "@" in self.key or "/" in self.key


def parse_override(text: str) -> Override:
    place = f"--override {text}"
    match = re.fullmatch(r"(\+\+|\+|~)?([^=]*)(=.*)?", text, re.DOTALL)
    assert match is not None
    kind, key, value = match[1] or "", match[2], match[3]
    if not all(key.split(".")) or (value is None and kind != "~"):
        refuse(place, EXPECTED)
    return Override(kind, key, Value(place=place) if value is None else _value_of(value[1:], place), place)


def _is_sweep(text: str) -> bool:
    """Returns whether Hydra would start several jobs: there is a comma outside of brackets and references."""
    depth = 0
    for character in text:
        depth += (character in "{[(") - (character in "}])")
        if character == "," and depth == 0:
            return True
    return False


def _value_of(text: str, place: str) -> Value:
    if text[:1] in ("{", "["):
        value = _set_place(literal(text, place), place)
    elif text[:1] in ("'", '"'):
        if len(text) < 2 or text[-1] != text[0]:
            refuse(place, f"the value begins with {text[0]} but does not end with it")
        value = Value(text[1:-1], quoted=True)
    elif _is_sweep(text):
        refuse(place, "gives several values", "Put a string with a comma in quotes")
    else:
        value = Value(None if text == "null" else text, quoted=not text)
    value.place = place
    return value


def _set_place(value: Value, place: str) -> Value:
    value.place = place
    below = value.data if isinstance(value.data, list) else value.data.values() if isinstance(value.data, dict) else ()
    for item in below:
        _set_place(item, place)
    return value


def _may_be_lost(path: Path, lost: list[LostPart]) -> bool:
    """Returns whether a part that was not found may contain the key, or all sections around it."""
    return any(starts_with(path, part.package) or starts_with(part.package, path) for part in lost)


def apply_override(root: Value, change: Override, lost: list[LostPart]) -> None:
    """Sets, adds or removes the value. As in Hydra, a key that is changed or removed must exist (or be below a part whose
    file was not found), and a key that is added must not have a value."""
    path = split_path(change.key)
    parent: Value | None = root
    for part in path[:-1]:
        parent = parent.data.get(part) if parent is not None and isinstance(parent.data, dict) else None
    section = parent.data if parent is not None and isinstance(parent.data, dict) else {}
    known = section.get(path[-1])
    if known is None and change.kind in ("", "~") and not _may_be_lost(path, lost):
        if change.kind == "~":
            refuse(change.place, f"the key {change.key} cannot be removed, because it does not exist")
        refuse(change.place, f"the configuration has no key {dotted(path)}", f"To add it, write +{change.key}=...")
    if change.kind == "~":
        section.pop(path[-1], None)
        return
    # When adding, Hydra treats a key that is null or ??? like a missing one, and lets maps and lists override any value.
    has_value = known is not None and known.data not in (None, "???")
    if change.kind == "+" and has_value and not isinstance(change.value.data, (dict, list)):
        refuse(change.place, f"the configuration has {change.key} already", "To change it, leave out the +")
    merge_at(root, path, change.value)
