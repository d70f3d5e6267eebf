"""Facts stated by a foreign configuration, and the settings derived from them so far."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NoReturn, TypeVar

from evenkeel.config import Config
from evenkeel.config_import import values
from evenkeel.config_import.references import LostPart
from evenkeel.config_import.tables import Key, Table
from evenkeel.config_import.values import ForeignKey, Value, as_flag, as_integer, printable, split_path, starts_with

T = TypeVar("T")

LARGEST_COUNT = (1 << 31) - 1  # of tokens or samples in an Evenkeel key

DEFAULTS = Config()._texts()  # of Evenkeel's keys, as YAML text, in the order of the reference page

_DECIDED_BY_STAGE = {
    "micro_batch.mode": "packed padded algorithm",
    "micro_batch.max_tokens": "cap gpu_cap padded_cap",
    "micro_batch.size": "size global_size",
    "micro_batch.max_samples": "max_samples",
    "micro_batch.min_count": "min_count",
    "micro_batch.length_round": "length_round",
    "micro_batch.shuffle": "shuffle",
    "loss.aggregation": "loss",
    "loss.norm_length": "norm",
}
_DECIDED_BY_JOB = {
    "mesh.tp": "tp",
    "mesh.pp": "pp",
    "mesh.cp": "cp ulysses engine_ulysses dynamic_cp",
    "micro_batch.max_tokens_per_rank": "rank_cap",
    "mesh.vpp": "vpp vpp_layers layers",
    "pack.cp_layout": "cp_algo",
    "batch.global_batch": "prompts responses",
    "batch.mini_batches": "mini rank_batch accumulation devices",
    "batch.epochs": "epochs",
    "batch.shuffle": "shuffle no_shuffle",
    "batch.keep_mini_batch": "random_mini",
    "batch.drop_last": "drop_last",
    "loss.aggregation": "loss",
    "loss.norm_length": "norm width prompt_width sequence_width",
    "loss.micro_batches": "trainer",
}


def _by_fact(decided: dict[str, str]) -> dict[str, str]:
    return {fact: key for key, facts in decided.items() for fact in facts.split()}


_SETTING_OF_STAGE, _SETTING_OF_JOB = _by_fact(_DECIDED_BY_STAGE), _by_fact(_DECIDED_BY_JOB)


def setting_of_fact(table: Table, fact: str) -> str:
    """Returns the Evenkeel key that a fact determines; empty if it does not determine memory, batches, mesh or loss."""
    stage, dot, name = fact.rpartition(".")
    if not dot:
        key = _SETTING_OF_JOB.get(fact, "")
        return "batch.global_batch" if table.batch == "rank_batches" and key == "batch.mini_batches" else key
    key = _SETTING_OF_STAGE.get(name, "")
    return f"profiles.{stage}.{key}" if key and stage != table.stages[0].name else key


def default_of_setting(path: str) -> str:
    return DEFAULTS.get(path.split(".", 2)[2] if path.startswith("profiles.") else path, "")


def add_once(texts: list[str], *more: str) -> None:
    texts += [text for text in dict.fromkeys(more) if text and text not in texts]


def _as_word(value: Value) -> str | None:
    flag = None if value.quoted else as_flag(value)
    return str(flag).lower() if flag is not None else value.data if isinstance(value.data, str) else None


def _count_of_python(text: str) -> int | None:
    """Counts the entries in a Python expression of lists, such as "list(range(0, 8)) + [9, 10]"; None for any other text."""
    count = 0
    for term in text.split("+"):
        listed = re.fullmatch(r"\s*\[((?:\s*\d+\s*,)*)(\s*\d+\s*)?\]\s*", term)
        ranged = re.fullmatch(r"\s*list\(\s*range\(\s*(?:(\d{1,9})\s*,\s*)?(\d{1,9})\s*\)\s*\)\s*", term)
        if ranged:
            count += max(0, int(ranged[2]) - int(ranged[1] or 0))
        elif listed and (listed[1] or listed[2]):
            count += listed[1].count(",") + (listed[2] is not None)
        else:
            return None
    return count or None


@dataclass
class Setting:
    """The value of an Evenkeel key in the result."""

    value: str  # as YAML text
    origin: str  # the foreign keys it was derived from, or the reason for it


@dataclass
class MissingSetting:
    """A setting that determines memory, batches, the mesh or the loss and that the import could not find or could not
    convert exactly."""

    foreign: str  # the foreign key that specifies it, or would
    value: str  # as in the file; empty if no file has the key
    evenkeel: list[str]  # the default used instead: "micro_batch.max_tokens: 8192"
    why: str


@dataclass
class _Fact:
    """A fact. It is lost if a key states it but its value cannot be found."""

    key: int | None = None  # its index among the keys; None if implied, or lost with its file
    path: str = ""  # of the key that states it
    implied: Value | None = None
    why: str = ""  # the reason, if implied
    lost: str = ""  # why its value is unknown; empty if it is known


@dataclass
class Outcome:
    """How a foreign key was used."""

    understood: bool = False
    evenkeel: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # shown if understood
    reasons: list[str] = field(default_factory=list)  # shown otherwise


class Facts:
    """Facts, requested by name. Every setting names the facts it was derived from, so each foreign key is reported with its
    result. Requesting a lost fact returns None and records the fact as missing."""

    def __init__(self, table: Table, keys: list[ForeignKey], lost: list[LostPart]) -> None:
        self.table = table
        self.keys = keys
        self.index: dict[str, int] = {}
        for at, key in enumerate(keys):
            self.index.setdefault(key.path, at)
        self.lost = [part for part in lost if not self._is_harmless(part)]  # only parts that may determine a setting
        self.outcomes = [Outcome() for _ in keys]
        self.facts: dict[str, _Fact] = {}
        self.asked_lost: set[str] = set()
        self.left_sections: list[tuple[str, str]] = []
        self.settings: dict[str, Setting] = {}
        self.missing: list[MissingSetting] = []
        for rule in table.keys:
            self._state(rule)
        for fact, value, why, section in table.implied:
            if not self.has(fact) and any(key.path.startswith(section) for key in keys):
                self.facts[fact] = _Fact(implied=Value(value), why=why)

    # Statements in the files.

    def _is_harmless(self, part: LostPart) -> bool:
        name = part.file.rsplit("/", 1)[-1]
        return any(name == it + ".yaml" or starts_with(part.package, split_path(it)) for it in self.table.harmless)

    def _path_of(self, rule: Key) -> str:
        named = re.search(r"\{(.*?)\}", rule.path)
        at = self.index.get(named[1]) if named else None
        return rule.path if named is None or at is None else rule.path.replace(named[0], self.keys[at].text)

    def _state(self, rule: Key) -> None:
        path = self._path_of(rule)
        at = self.index.get(path)
        lost = self.why_lost(path) if at is None else self.keys[at].value.missing
        if at is None and not lost:
            return
        if at is not None and not lost and self.keys[at].value.data is None:
            self.outcomes[at].understood = True
            add_once(self.outcomes[at].notes, "not set there")
            return
        if at is not None:
            add_once(self.outcomes[at].notes, rule.note)
        for fact in rule.facts.split():
            earlier = self.facts.get(fact)
            if earlier is not None and earlier.key is not None and at is not None:
                add_once(self.outcomes[earlier.key].reasons, f"{path} sets the same value, and takes precedence")
            self.facts[fact] = _Fact(at, path, lost=lost)

    def why_lost(self, path: str) -> str:
        """Returns why a missing key may have a value: its section cannot be resolved, or its file was not found. Else empty."""
        for key in self.keys:
            if key.value.missing and path.startswith(key.path + "."):
                return key.value.missing
        for part in self.lost:
            if starts_with(split_path(path), part.package):
                return f"{part.file} may set it, but that file was not found ({part.entry})"
        return ""

    def has(self, fact: str) -> bool:
        """Returns whether a key states the fact, even if it is lost, or the fact is implied."""
        return fact in self.facts

    def is_lost(self, fact: str) -> bool:
        return self.has(fact) and self.facts[fact].lost != ""

    def mentions_stage(self, stage: str) -> bool:
        """Returns whether the files have a key that states any fact of this stage, even if it is null."""
        of_stage = [key.path for key in self.table.keys if any(f.startswith(stage + ".") for f in key.facts.split())]
        return any(path in self.index or self.why_lost(path) for path in of_stage)

    # Values of facts. All four functions return None if no key states the fact or if it is lost.

    def _ask(self, name: str) -> Value | None:
        fact = self.facts.get(name)
        if fact is None or fact.lost:
            self.asked_lost.update([name] if fact else [])
            return None
        return fact.implied if fact.key is None else self.keys[fact.key].value

    def _read(self, name: str, read: Callable[[Value], T | None], expected: str) -> T | None:
        value = self._ask(name)
        found = None if value is None else read(value)
        if value is not None and found is None:
            self.refuse(name, f"expected {expected}")
        return found

    def integer(self, fact: str, least: int = 1) -> int | None:
        number = self._read(fact, as_integer, "an integer")
        if number is not None and not least <= number <= LARGEST_COUNT:
            self.refuse(fact, f"out of range; allowed: {least} to {LARGEST_COUNT}")
        return number

    def flag(self, fact: str) -> bool | None:
        return self._read(fact, as_flag, "true or false")

    def word(self, fact: str) -> str | None:
        return self._read(fact, _as_word, "a word")

    def count(self, fact: str) -> int | None:
        """Returns the number of entries of a list, or of Python's list(range(a, b)) and [0, 1] as text."""
        value = self._ask(fact)
        if value is None:
            return None
        if isinstance(value.data, list):
            return len(value.data)
        count = _count_of_python(value.data) if isinstance(value.data, str) else None
        if count is None:
            self.facts[fact].lost = "is not a list whose entries can be counted"
            self.asked_lost.add(fact)
        return count

    def refuse(self, fact: str, message: str) -> NoReturn:
        at = self.facts[fact].key if fact in self.facts else None
        if at is None:
            values.refuse(fact, message)
        values.refuse(self.keys[at].where, f"{message}, found {self.keys[at].text}")

    # Derived settings.

    def set(self, path: str, value: object, facts: str, note: str = "") -> None:
        """Adds a setting derived from these facts, unless its value is None; `note` explains it next to the facts' keys.
        Facts that no key states give no origin, except implied ones, which give their reason."""
        if value is None:
            return
        text = str(value).lower() if isinstance(value, bool) else str(value)
        origins: list[str] = []
        for name in facts.split():
            fact = self.facts.get(name)
            if fact is not None and fact.key is None:
                add_once(origins, fact.why)
            elif fact is not None and not fact.lost:
                self.settle(name, note)
                add_once(self.outcomes[fact.key or 0].evenkeel, f"{path}: {text}")
                add_once(origins, printable(fact.path))
        if len(origins) > 3:  # a comment has room for a few; the table lists all of them
            origins = [*origins[:2], f"and {len(origins) - 2} more"]
        self.settings[path] = Setting(text, ", ".join(origins))

    def set_because(self, path: str, value: str, why: str) -> None:
        """Adds a setting that was not derived from a foreign key."""
        self.settings[path] = Setting(value, why)

    def value_of(self, path: str) -> str | None:
        return self.settings[path].value if path in self.settings else None

    def has_flexible_cp(self) -> bool:
        """Returns whether context-parallel groups differ between micro-batches. Call it after mesh.cp has been set."""
        return self.value_of("mesh.cp") == "flexible"

    def mesh_size(self, axis: str) -> int:
        """Returns the number of ranks along an axis of the mesh: the setting, or 1."""
        size = self.value_of(f"mesh.{axis}")
        return 1 if size is None or size == "flexible" else int(size)

    def settle(self, fact: str, note: str) -> None:
        """Marks the fact's key as understood without any setting."""
        known = self.facts.get(fact)
        if known is not None and known.key is not None and not known.lost:
            self.outcomes[known.key].understood = True
            add_once(self.outcomes[known.key].notes, note)

    def leave(self, facts: str, why: str) -> None:
        """Records why the facts' keys are not used, in case nothing else uses them."""
        for fact in facts.split():
            at = self.facts[fact].key if fact in self.facts else None
            if at is not None:
                add_once(self.outcomes[at].reasons, why)

    # Missing settings.

    def want(self, path: str, facts: Iterable[str], why: str) -> None:
        """Requires a setting: records it as missing unless it was set or a lost fact accounts for it. The record names the
        key of the first of `facts` that no key states, or of the first one."""
        facts = list(facts)
        if path in self.settings:
            return
        lost = [fact for fact in facts if self.is_lost(fact)]
        self.asked_lost.update(lost)
        is_told = any(used.startswith(path + ":") for missing in self.missing for used in missing.evenkeel)
        if lost or is_told:
            return
        named = [(fact, key.path) for fact in facts for key in self.table.keys if fact in key.facts.split()]
        named.sort(key=lambda it: self.has(it[0]))
        self.add_missing(named[0][1] if named else "", path, why)

    def miss(self, path: str, fact: str, why: str) -> None:
        """Records a setting that the fact's key would determine but that cannot be converted."""
        self.add_missing(self.facts[fact].path if fact in self.facts else fact, path, why)

    def add_missing(self, foreign: str, path: str, why: str) -> None:
        value = self.value_of(path)
        used = f"{path}: {default_of_setting(path) if value is None else value}"
        known = next((it for it in self.missing if (it.foreign, it.why) == (foreign, why)), None)
        if known is None:
            at = self.index.get(foreign)
            self.missing.append(MissingSetting(foreign, "" if at is None else self.keys[at].written, [used], why))
        else:
            add_once(known.evenkeel, used)
