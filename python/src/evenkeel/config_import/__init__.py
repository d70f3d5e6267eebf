"""Converts a verl, ROLL or MindSpeed-RL configuration to an Evenkeel one, key by key: the command evenkeel-import.

Reads configurations with OmegaConf, which no other part of evenkeel needs. importer.import_config is the equivalent of the
command in Python.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Optional


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Runs the command. Returns its exit status: 0 success, 1 the work failed, 2 the command line or the file is wrong."""
    try:
        from evenkeel.config_import.command import run
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in ("omegaconf", "antlr4", "yaml"):
            raise
        print(
            f"evenkeel-import: error: the Python package {error.name} is missing. Install python3-omegaconf (Debian), "
            "or with pip: 'omegaconf<2.4'",
            file=sys.stderr,
        )
        return 1
    return run(sys.argv[1:] if arguments is None else list(arguments))
