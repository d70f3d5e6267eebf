"""Reports the result for each key, and what is missing."""

from __future__ import annotations

from dataclasses import dataclass, field

from evenkeel.config_import.facts import Facts, MissingSetting, add_once, setting_of_fact
from evenkeel.config_import.tables import Same, Table
from evenkeel.config_import.values import ForeignKey, as_flag, as_integer, is_at_or_below


@dataclass
class ImportedKey:
    """The result for one key of the foreign configuration."""

    foreign: str  # "rl_config.use_dynamic_bsz"
    value: str  # on one line; for an understood key, with references followed
    evenkeel: list[str]  # "micro_batch.mode: packed"; empty if nothing has to be set
    note: str  # a remark for the reader; for an unused key, the reason. May be empty


@dataclass
class Imported:
    """The result of an import. Together, `keys` and `unused` contain all keys of the files, each in their order."""

    system: str
    yaml: str = ""  # the Evenkeel configuration, with a comment on the origin of each key
    keys: list[ImportedKey] = field(default_factory=list)
    unused: list[ImportedKey] = field(default_factory=list)
    missing: list[MissingSetting] = field(default_factory=list)  # if not empty, `yaml` would train differently
    files: list[str] = field(default_factory=list)  # read in addition to the first, as listed in defaults lists
    lost_files: list[str] = field(default_factory=list)  # listed in them but not found, each with its entry


def report(facts: Facts, imported: Imported) -> None:
    """Fills in the result of every key."""
    _apply_always_rules(facts)
    for rule in facts.table.same:
        _apply_same_rule(facts, rule)
    for name, fact in sorted(facts.facts.items()):
        path = setting_of_fact(facts.table, name)
        if fact.lost and path and name in facts.asked_lost:
            for decided in (path, "loss.dp_ranks") if name == "trainer" else (path,):
                facts.add_missing(fact.path, decided, fact.lost)
    for key, outcome in zip(facts.keys, facts.outcomes):
        if outcome.understood:
            add_once(outcome.notes, key.value.via)
            imported.keys.append(ImportedKey(key.path, key.text, outcome.evenkeel, "; ".join(outcome.notes)))
        else:
            is_told = outcome.reasons and not key.value.missing and not _left_section(facts, key.path)
            why = "; ".join(outcome.reasons) if is_told else _why_unused(facts, key)
            imported.unused.append(ImportedKey(key.path, key.written, outcome.evenkeel, why))
    imported.missing = facts.missing


def _apply_always_rules(facts: Facts) -> None:
    for path, value, note in facts.table.always:
        if path in facts.index:
            outcome = facts.outcomes[facts.index[path]]
            outcome.understood = _plain_value(facts, path, "") == value
            add_once(outcome.notes if outcome.understood else outcome.reasons, f"always true in Evenkeel: {note}")


def _plain_value(facts: Facts, path: str, fallback: str) -> str:
    """Returns the same text for all spellings of a value."""
    key = facts.keys[facts.index[path]] if path in facts.index else None
    if key is None or key.value.data is None:
        return fallback
    flag, number = as_flag(key.value), as_integer(key.value)
    return str(flag).lower() if flag is not None else key.text if number is None else str(number)


def _effective_value(facts: Facts, paths: tuple[str, ...], fallback: str) -> str:
    """Returns the first value of these keys that differs from the fallback, otherwise the fallback."""
    values = (_plain_value(facts, path, fallback) for path in paths)
    return next((value for value in values if value != fallback), fallback)


def _apply_same_rule(facts: Facts, rule: Same) -> None:
    at = facts.index.get(rule.path)
    if _left_section(facts, rule.path) or (at is not None and facts.outcomes[at].understood):
        return
    section = rule.path.rpartition(".")[0]
    has_section = any(is_at_or_below(key.path, section) for key in facts.keys)
    if at is None and not (rule.counts_when_absent and has_section):
        return
    lost = "" if at is None else facts.keys[at].value.missing
    here = _effective_value(facts, (rule.path, *rule.beside), rule.fallback)
    there = _effective_value(facts, (rule.like, *rule.like_beside), rule.fallback)
    if here == there and not lost:
        if at is not None:
            facts.outcomes[at].understood = True
            add_once(facts.outcomes[at].notes, f"as {rule.like}")
        return
    why = lost or f"one job has one value, that of {rule.like}"
    if at is None:
        why += f"; this key is {rule.fallback} by default"
    else:
        add_once(facts.outcomes[at].reasons, why)
    # The key it is compared with determines the setting, and its value differs.
    known = next((key for key in facts.table.keys if key.path == rule.like), None)
    for fact in known.facts.split() if known else ():
        path = setting_of_fact(facts.table, fact)
        if path:
            facts.add_missing(rule.path, path, why)


def _left_section(facts: Facts, path: str) -> str:
    return next((why for section, why in facts.left_sections if path.startswith(section)), "")


def _why_unused(facts: Facts, key: ForeignKey) -> str:
    why = key.value.missing or _left_section(facts, key.path)
    if why:
        return why
    meant = _meant_by(key.path, facts.table)
    if meant:
        return f"unknown here; did you mean {meant}?"
    outside = (why for path, why in facts.table.outside.items() if _is_outside(key.path, path))
    return next(outside, "unknown here")


def _is_outside(path: str, rule: str) -> bool:
    return f".{rule[2:]}." in f".{path}." if rule.startswith("*.") else is_at_or_below(path, rule)


def _meant_by(path: str, table: Table) -> str:
    """Returns a known key that this one probably misspells: at most two letters are wrong, missing, added or swapped."""
    if len(path.rpartition(".")[2]) < 8:
        return ""
    near = (key.path for key in table.keys if key.path != path and abs(len(key.path) - len(path)) <= 2)
    return next((known for known in near if _edit_distance(path, known) <= 2), "")


def _edit_distance(left: str, right: str) -> int:
    before: list[int] = []
    last = list(range(len(right) + 1))
    for i, a in enumerate(left):
        row = [i + 1]
        for j, b in enumerate(right):
            row.append(min(last[j] + (a != b), last[j + 1] + 1, row[j] + 1))
            if i and j and a == right[j - 1] and left[i - 1] == b:
                row[-1] = min(row[-1], before[j - 1] + 1)
        before, last = last, row
    return last[-1]
