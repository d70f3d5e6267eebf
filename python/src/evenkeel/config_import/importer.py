"""Turns a MindSpeed-RL, ROLL or verl configuration into an Evenkeel one: their RL, SFT and DPO files."""

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
from evenkeel.config_import.values import TOO_LARGE, ForeignKey, dotted, is_at_or_below, leaves, refuse

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
                refuse(key.value.place, TOO_LARGE)


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
    """`name` is the file's path, for messages and for where other files are looked for. `system` is told from the file's
    keys when it is not given. `preset` sets balance.preset too, for the foreign system's own partitions. `overrides` are
    laid on the configuration in this order, in Hydra's words. `environment` is what ${oc.env:NAME} stands for.
    `read_file` gives the text of another file, None when there is none; it is asked for what defaults lists name, beside
    the first file and in its hydra.searchpath.

    Only what the files say is set, and the defaults of theirs that docs/{verl,roll,mindspeed-rl}.md name. The stages of a step
    become profiles, and the training stage also the job's own micro_batch settings. What decides memory, batches, the
    mesh or the loss is right in `yaml` or listed in `missing`. Whether the result suits a job (a cap below the alignment,
    say) is for Config to tell.

    Deterministic: it looks at its arguments only. Raises ConfigError for malformed YAML, for a file that is no map, of no
    recognisable system or without any key that is understood, for a key whose value has the wrong type or range, and for
    an override that Hydra would refuse.
    """
    document = Document(text, name, overrides, environment, read_file)
    imported = Imported(system or _recognise(document, name))
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
        what = f"none of its {len(imported.unused)} keys says how {table.title} makes batches"
        refuse(name, what, f"The first is {imported.unused[0].foreign}" if imported.unused else "")
    return imported


def _recognise(document: Document, name: str) -> str:
    """The system that has most of the file's keys."""
    paths = [key.path for key in document.keys] + [dotted(part.package) for part in document.lost]
    count = {
        system: sum(any(is_at_or_below(path, sign) for sign in module.SIGNS) for path in paths)
        for system, module in SYSTEMS.items()
    }
    most = max(count.values())
    hint = "Name its system: --from mindspeed-rl, roll or verl"
    if most == 0:
        refuse(name, "is not a known configuration of MindSpeed-RL, ROLL or verl", hint)
    best = [system for system, signs in count.items() if signs == most]
    if len(best) > 1:
        refuse(name, "could be the configuration of several systems", hint)
    return best[0]


def _table_of(system: str, document: Document) -> Table:
    """The table for the kind of job that a file describes."""

    def has(mark: str) -> bool:
        """"a.b": a key at or below it; "a.b=word": with that value."""
        path, equals, word = mark.partition("=")
        return any(is_at_or_below(key.path, path) and (not equals or key.text == word) for key in document.keys)

    tables = SYSTEMS[system].tables()
    marked = (table for table in tables if any(map(has, table.marks)) and not any(map(has, table.not_marks)))
    return next(marked, tables[-1])
