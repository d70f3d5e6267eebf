"""Converts MindSpeed-RL, ROLL and verl configurations of RL, SFT and DPO jobs to Evenkeel configurations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Optional

from evenkeel.config_import import job, mindspeed_rl, roll, verl
from evenkeel.config_import.compose import ReadFile, compose
from evenkeel.config_import.facts import Facts
from evenkeel.config_import.loss import import_loss
from evenkeel.config_import.overrides import parse_override
from evenkeel.config_import.references import LostPart, References
from evenkeel.config_import.report import Imported, report
from evenkeel.config_import.stages import import_stages
from evenkeel.config_import.tables import Table
from evenkeel.config_import.text import settings_yaml
from evenkeel.config_import.values import ForeignKey, dotted, is_at_or_below, leaves, refuse

MOST_KEYS = 10_000
SYSTEMS = {"mindspeed-rl": mindspeed_rl, "roll": roll, "verl": verl}


class Document:
    """A complete foreign configuration: composed from its files, with overrides applied and references followed."""

    def __init__(
        self,
        text: str,
        name: str,
        overrides: Iterable[str] = (),
        environment: Optional[Mapping[str, str]] = None,
        read_file: Optional[ReadFile] = None,
    ) -> None:
        made = compose(text, name, [parse_override(override) for override in overrides], read_file)
        self.files: list[str] = made.files  # read in addition to the first
        self.lost: list[LostPart] = made.lost  # listed in a defaults list but not found
        self.keys: list[ForeignKey] = []  # in order
        whole = References(made.root, environment or {}, made.lost).follow_all()
        for key in leaves(whole) if whole.data else ():
            self.keys.append(key)
            if len(self.keys) > MOST_KEYS:
                refuse(name, f"has more than {MOST_KEYS} keys, the limit for a configuration", "Check that it is the right file")


def import_config(
    text: str,
    name: str,
    system: Optional[str] = None,
    *,
    preset: bool = False,
    overrides: Iterable[str] = (),
    environment: Optional[Mapping[str, str]] = None,
    read_file: Optional[ReadFile] = None,
) -> Imported:
    """Converts the configuration `text` to an Evenkeel configuration.

    `name` is the file's path, for messages and for locating other files. `system` is detected from the file's keys if it is
    not given. `preset` also sets balance.preset, for the foreign system's own partitions. `overrides` in Hydra's syntax are
    applied in order. `environment` provides the values of ${oc.env:NAME}. `read_file` returns the text of another file, or
    None if it does not exist; it is called for files in defaults lists, next to the first file and in its hydra.searchpath.

    Sets only what the files specify and the foreign defaults in docs/{verl,roll,mindspeed-rl}.md. The stages of a step
    become profiles, and the training stage also becomes the job's own micro_batch settings. Settings that determine memory,
    batches, the mesh or the loss are right in `yaml` or listed in `missing`. Config checks that settings fit together.

    Deterministic: depends only on its arguments. Raises ConfigError for malformed YAML, for a file that is not a map, whose
    system is not recognized or none of whose keys is understood, for a value of the wrong type or range, and for an
    override that Hydra would reject.
    """
    document = Document(text, name, overrides, environment, read_file)
    if system is not None and system not in SYSTEMS:
        refuse("system", f"is {system!r}; it must be {', '.join(SYSTEMS)} or None")
    imported = Imported(system or _recognize(document, name))
    imported.files = document.files
    imported.lost_files = [f"{part.file} ({part.entry})" for part in document.lost]
    table = _table_of(imported.system, document)
    facts = Facts(table, document.keys, document.lost)
    job.import_mesh(facts)
    job.import_batch(facts)
    job.import_balance(facts)
    import_stages(facts)
    import_loss(facts)
    if preset:
        job.import_preset(facts)
    imported.yaml = settings_yaml(table.title, facts.settings)
    report(facts, imported)
    if not imported.keys and not imported.files and not imported.lost_files:
        what = f"has no key that says how {table.title} makes batches"
        refuse(name, what, f"Check that it is the right file; its first key is {imported.unused[0].foreign}" if imported.unused else "")
    return imported


def _recognize(document: Document, name: str) -> str:
    """Returns the system that most of the file's keys belong to. Raises ConfigError if it is not unique."""
    paths = [key.path for key in document.keys] + [dotted(part.package) for part in document.lost]
    count = {
        system: sum(any(is_at_or_below(path, sign) for sign in module.SIGNS) for path in paths)
        for system, module in SYSTEMS.items()
    }
    most = max(count.values())
    hint = "Specify its system (--from): mindspeed-rl, roll or verl"
    if most == 0:
        refuse(name, "is not recognized as a configuration of MindSpeed-RL, ROLL or verl", hint)
    best = [system for system, signs in count.items() if signs == most]
    if len(best) > 1:
        refuse(name, f"could be a configuration of {' or '.join(best)}", hint)
    return best[0]


def _table_of(system: str, document: Document) -> Table:
    """Returns the table for the kind of job that a file describes."""

    def has(mark: str) -> bool:
        """Returns whether a mark applies: "a.b" is a key or a section; "a.b=word" also requires that value."""
        path, equals, word = mark.partition("=")
        return any(is_at_or_below(key.path, path) and (not equals or key.text == word) for key in document.keys)

    tables = SYSTEMS[system].tables()
    marked = (table for table in tables if any(map(has, table.marks)) and not any(map(has, table.not_marks)))
    return next(marked, tables[-1])
