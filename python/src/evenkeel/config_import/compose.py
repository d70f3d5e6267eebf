"""Composes a configuration as Hydra does, from the defaults lists of a file and of the files it includes."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Optional

from evenkeel.config_import.overrides import Override, apply_override
from evenkeel.config_import.references import LostPart
from evenkeel.config_import.values import Path, Value, merge_at, one_line, read_yaml, refuse, split_path

DEEPEST = 32
MOST_FILES = 1000

ReadFile = Callable[[str], Optional[str]]


@dataclass
class Composition:
    """A composed configuration whose references have not been followed yet."""

    root: Value
    files: list[str] = field(default_factory=list)  # read in addition to the first, in order
    lost: list[LostPart] = field(default_factory=list)


@dataclass
class _Entry:
    """An entry of a defaults list."""

    key: str  # as written, "actor@actor_rollout_ref.actor"; empty for a separate file
    group: str  # "../optim", "/model"; empty for a separate file
    where: str | None  # the package after "@"
    options: list[str]  # file names in the group; empty for null
    words: set[str]  # "override", "optional"
    text: str  # as written
    place: str

    @property
    def is_self(self) -> bool:
        return not self.group and self.options == ["_self_"]


def _options_of(value: Value) -> list[str]:
    items = value.data if isinstance(value.data, list) else [value]
    return [item.data for item in items if isinstance(item.data, str)]


def _parse_entry(value: Value) -> _Entry:
    options: list[str] = []
    text = one_line(value)
    if isinstance(value.data, str):
        key = value.data
    elif isinstance(value.data, dict) and len(value.data) == 1:
        key, option = next(iter(value.data.items()))
        text = f"{key}: {one_line(option)}"
        options = _options_of(option)
    else:
        refuse(value.place, f'expected a file or one "group: option" in defaults, found {text[:60]}')
    words = set()
    for word in ("override", "optional"):
        if key.startswith(word + " "):
            key = key[len(word) :].lstrip(" ")
            words.add(word)
    name, at, where = key.partition("@")
    is_plain = isinstance(value.data, str)
    return _Entry(
        key="" if is_plain else key,
        group="" if is_plain else name,
        where=where if at else None,
        options=[name] if is_plain else options,
        words=words,
        text=text,
        place=value.place,
    )


def _normal(path: str) -> str:
    """Normalizes "a/../b" to "b"; a path that leads out of the first folder keeps its ".."."""
    return posixpath.normpath(path) if path else ""


def _package_of_group(group: str) -> Path:
    return tuple(part for part in group.split("/") if part not in ("", ".", ".."))


def _directive(text: str) -> str | None:
    """Returns the package in a file's header, such as "# @package _global_", or None."""
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            return None
        match = re.match(r"\s*#\s*@package\s+(\S+)", line)
        if match:
            return match[1]
    return None


def _package_named(name: str, around: Path, group: str) -> Path:
    """Resolves a package name, as written after "@" or in a directive, relative to the surrounding package."""
    if name == "_here_":
        return around
    if name in ("_global_", ""):
        return ()
    if name == "_group_":
        return _package_of_group(group)
    if name.startswith("_global_."):
        return split_path(name[len("_global_.") :])
    return around + split_path(name)


def _package_of(entry: _Entry, package: Path) -> Path:
    if entry.where is not None:
        return _package_named(entry.where, package, entry.group)
    return package + _package_of_group(entry.group)


def _full_group(entry: _Entry, group: str) -> str:
    if entry.group.startswith("/"):
        return _normal(entry.group[1:])
    return _normal(f"{group}/{entry.group}" if group else entry.group)


class _Composer:
    def __init__(self, name: str, overrides: list[Override], read_file: ReadFile | None) -> None:
        self.folder = posixpath.dirname(name)
        self.overrides = overrides
        self.read_file = read_file
        self.search_path: list[str] = []
        self.used: set[str] = set()  # overrides that chose an option
        self.choices: dict[str, str] = {}  # group -> option
        self.overridden: dict[tuple[str, Path], list[str]] = {}
        self.composition = Composition(Value({}, place=name))

    def compose(self, text: str, name: str) -> Composition:
        primary = read_yaml(text, name)
        if not isinstance(primary.data, dict):
            kind = "a list" if isinstance(primary.data, list) else one_line(primary)[:60]
            refuse(name, f"expected a map of sections, found {kind}")
        hydra = primary.data.get("hydra", Value()).data
        paths = hydra.get("searchpath", Value()) if isinstance(hydra, dict) else Value()
        self.search_path = [path[7:] for path in _options_of(paths) if path.startswith("file://")]
        self.visit(primary, "", _package_named(_directive(text) or "_global_", (), ""), 0)
        for change in self.overrides:
            if change.place in self.used:
                continue
            if change.names_group:
                if change.kind == "+":
                    file = f"{change.key.partition('@')[0]}/{one_line(change.value)}.yaml"
                    refuse(change.place, f"the file {file} was not found", "Check the name, and hydra.searchpath if it is elsewhere")
                hint = "" if change.kind == "~" else f"To add it, write +{change.key}=..."
                refuse(change.place, f"no defaults list has the group {change.key}", hint)
            apply_override(self.composition.root, change, self.composition.lost)
        return self.composition

    def find_file(self, name: str) -> tuple[str, str] | None:
        """Finds a file of the configuration by its name without ".yaml". Returns its path and text."""
        folders = [self.folder]
        for path in self.search_path:
            folders += [path] if posixpath.isabs(path) else [path, posixpath.join(self.folder, path)]
        for folder in folders if self.read_file else ():
            file = _normal(posixpath.join(folder, name + ".yaml"))
            text = self.read_file(file) if self.read_file else None
            if text is not None:
                return file, text
        return None

    def add_groups(self, entries: list[_Entry]) -> None:
        """Adds the groups in "+group=option" overrides to the first file's list."""
        for change in self.overrides:
            group = change.key.partition("@")[0]
            is_there = any(entry.key == change.key for entry in entries)
            names_file = isinstance(change.value.data, str) and "." not in group
            if change.kind == "+" and not is_there and names_file and self.find_file(f"{group}/{change.value.data}"):
                at = next((i for i, entry in enumerate(entries) if entry.is_self), len(entries))
                entries.insert(at, _parse_entry(Value({change.key: change.value}, place=change.place)))

    def choose(self, entries: list[_Entry]) -> None:
        """Chooses the option of each group: from an override, otherwise from the outermost file that specifies it."""
        for entry in entries:
            for change in self.overrides:
                if entry.key and entry.key == change.key:
                    entry.options = _options_of(change.value)
                    self.used.add(change.place)
            if entry.key and entry.options:
                self.choices.setdefault(entry.key, entry.options[0])

    def visit(self, content: Value, group: str, package: Path, depth: int) -> None:
        if depth > DEEPEST or len(self.composition.files) > MOST_FILES:
            refuse(content.place, f"its defaults lists form a cycle, or have more than {DEEPEST} levels or {MOST_FILES} files")
        assert isinstance(content.data, dict)
        found = content.data.get("defaults")
        items: list[Value] = []
        if found is not None and isinstance(found.data, list):
            items = found.data
            del content.data["defaults"]
        entries = [_parse_entry(item) for item in items]
        if depth == 0:
            self.add_groups(entries)
        self.choose(entries)
        for entry in entries:
            if "override" in entry.words:
                self.overridden.setdefault((_full_group(entry, group), _package_of(entry, package)), entry.options)
        for entry in entries:
            if entry.is_self:
                merge_at(self.composition.root, package, content)
            elif "override" not in entry.words:
                self.include(entry, group, package, depth)
        if not any(entry.is_self for entry in entries):
            merge_at(self.composition.root, package, content)

    def include(self, entry: _Entry, group: str, package: Path, depth: int) -> None:
        of_group = _full_group(entry, group)
        if of_group.split("/")[0] == "hydra":
            return  # Hydra's own settings
        options = self.overridden.get((of_group, _package_of(entry, package))) if entry.group else None
        for option in entry.options if options is None else options:
            chosen = self.with_choices(option, entry.place)
            if chosen not in ("", "null"):  # "null" leaves the choice to others
                self.include_file(entry, of_group, chosen, group, package, depth)

    def include_file(self, entry: _Entry, of_group: str, option: str, group: str, package: Path, depth: int) -> None:
        base = of_group if entry.group else group
        name = _normal((option if not base or option.startswith("/") else f"{base}/{option}").lstrip("/"))
        where = _package_of(entry, package)
        if not entry.group and entry.where is None:  # a separate file may name its folder: "- db/mysql"
            where += _package_of_group(posixpath.dirname(option))
        file = self.find_file(name)
        if file is None:
            if "optional" not in entry.words:
                self.composition.lost.append(LostPart(where, entry.text, name + ".yaml"))
            return
        path, text = file
        folder = posixpath.dirname(name)
        directive = _directive(text)
        if directive is not None and entry.where is None:
            where = _package_named(directive, (), folder)
        self.composition.files.append(path)
        content = read_yaml(text, path)
        if content.data is None:
            return
        if not isinstance(content.data, dict):
            refuse(path, f"expected a map of keys, found {'a list' if isinstance(content.data, list) else one_line(content)[:60]}")
        self.visit(content, folder, where, depth + 1)

    def with_choices(self, option: str, place: str) -> str:
        """Replaces ${group} in an option by the option chosen for that group."""

        def choice(match: re.Match[str]) -> str:
            if not match[0].endswith("}"):
                refuse(place, f"{option} has a ${{ without a closing brace")
            chosen = self.choices.get(match[1])
            if chosen is None or "${" in chosen:
                why = f"no defaults list has a group {match[1]}" if chosen is None else f"the option of that group is {chosen}"
                refuse(place, f"cannot replace {match[0]} in {option}, because {why}")
            return chosen

        return re.sub(r"\$\{([^}]*)\}?", choice, option)


def compose(text: str, name: str, overrides: list[Override], read_file: ReadFile | None) -> Composition:
    """Composes the configuration in `text`. Defaults lists may contain "- group: option", "- group@package: option",
    "- file@package", "- /absolute/group: option", "- optional group: option", "- override group: option", "- _self_", lists
    of options, and ${group} in an option. Files are searched for next to the first one and in its hydra.searchpath (file://
    only). A file's own keys follow its defaults if it has no _self_. Overrides choose options ("model_engine=megatron",
    "actor@actor_rollout_ref.actor=megatron_actor", "+group=option", "~group") and then set values. Raises ConfigError for
    whatever Hydra rejects."""
    return _Composer(name, overrides, read_file).compose(text, name)
