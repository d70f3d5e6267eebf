"""Shared by tests of the import."""

import yaml

from evenkeel import Config
from evenkeel.config_import.importer import import_config


def imported(text, system=None, **options):
    """Imports a file and checks the invariants of every import: the resulting configuration is valid."""
    result = import_config(text, "job.yaml", system, **options)
    Config.parse(result.yaml, "imported")
    return result


def outcomes(config):
    """Returns the result of each key of the file: its Evenkeel keys, "-" if nothing has to be set, or "unused: why"."""
    understood = {key.foreign: ", ".join(key.evenkeel) or "-" for key in config.keys}
    return {**understood, **{key.foreign: f"unused: {key.note}" for key in config.unused}}


def outcome(config, key):
    return outcomes(config)[key]


def note_of(config, key):
    return next(it.note for it in config.keys + config.unused if it.foreign == key)


def setting(config, path):
    """Returns the value of "section.key" in the imported YAML, or "(not set)"."""
    node = yaml.load(config.yaml, yaml.BaseLoader)
    for part in path.split("."):
        if not isinstance(node, dict) or part not in node:
            return "(not set)"
        node = node[part]
    return node


def missing(config):
    """Returns what is missing, as "foreign key -> what Evenkeel would use"."""
    return [f"{it.foreign} -> {setting}" for it in config.missing for setting in it.evenkeel]
