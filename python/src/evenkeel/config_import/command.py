"""The command line of evenkeel-import."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import tempfile
from typing import IO, NoReturn, Optional

from evenkeel.config_import.importer import SYSTEMS, import_config
from evenkeel.config_import.text import import_table
from evenkeel.config_import.values import MOST_BYTES, printable
from evenkeel.errors import ConfigError, Error, IoError

_ABOUT = "Turn a MindSpeed-RL, ROLL or verl configuration into an Evenkeel one, key by key."
_EPILOG = """\
The configuration goes to standard output and the table to standard error; with --output, the configuration goes to the
file and the table to standard output. Keys that could not be used are listed with the reason: nothing is dropped
silently. If a setting that decides memory, batches, the mesh or the loss is not found, nothing is written and the exit
status is 1; --allow-missing writes the configuration with Evenkeel's defaults.

Files that the defaults lists of FILE name are searched in its folder. Overrides are those of the launch command, in
Hydra's syntax: KEY=VALUE, +KEY=VALUE, ++KEY=VALUE, ~KEY, GROUP=OPTION.

Examples:
  evenkeel-import grpo.yaml > evenkeel.yaml
  evenkeel-import ppo_trainer.yaml --from verl --preset --output evenkeel.yaml
  evenkeel-import verl/trainer/config/ppo_trainer.yaml --override data.train_batch_size=512 \\
    actor_rollout_ref.actor.use_dynamic_bsz=True actor_rollout_ref.actor.ppo_max_token_len_per_gpu=24576

Exit status: 0 success; 1 the work failed; 2 the command line or the configuration is wrong."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{printable(message)}. See: evenkeel-import --help")


def _require_value(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("needs a value, but the value is empty. Check that shell variables in it are set")
    return text


def _system(text: str) -> str:
    if _require_value(text).lower() not in SYSTEMS:
        raise argparse.ArgumentTypeError(f"'{text}' is not one of {', '.join(SYSTEMS)}")
    return text.lower()


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="evenkeel-import",
        usage="evenkeel-import FILE [OPTIONS]",
        description=_ABOUT,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("FILE", type=_require_value, help="The foreign YAML file")
    add("--from", dest="system", metavar="SYSTEM", type=_system,
        help="The system that it belongs to, if its keys do not show it: mindspeed-rl, roll or verl")
    add("--output", metavar="FILE", type=_require_value, help="Write the configuration to this file")
    add("--preset", action="store_true",
        help="Set balance.preset too: the foreign system's exact partitions instead of Evenkeel's planner")
    add("--override", metavar="KEY=VALUE", nargs="+", action="extend", default=[],
        help="Apply these overrides, as the launch command does; the list ends at the next option")
    add("--allow-missing", action="store_true",
        help="Write the configuration even if settings that matter are not found")
    return parser


def _read(path: str) -> str:
    """Reads a file. Bytes that are not UTF-8 become surrogates, which are reported when the YAML is parsed."""
    if os.path.isdir(path):
        raise IoError(f"{path}: is a folder, not a file. Name a YAML file", path)
    try:
        with open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise IoError(f"{path}: cannot open the configuration: {error.strerror}. Check the path and its permissions", path) from None
    return data.decode("utf-8", "surrogateescape")


def _read_named(path: str) -> Optional[str]:
    return _read(path) if os.path.isfile(path) else None


def _write(path: str, text: str) -> None:
    """Writes the file atomically."""
    if os.path.isdir(path):
        raise IoError(f"{path}: is a folder, not a file. Give the name of a file", path)
    if os.path.exists(path) and not os.path.isfile(path):
        raise IoError(f"{path}: exists and is not a regular file. Give another name", path)
    try:
        descriptor, made = tempfile.mkstemp(prefix=os.path.basename(path) + ".tmp-", dir=os.path.dirname(path) or ".")
    except OSError as error:
        hint = "Check that the folder exists and can be written to"
        raise IoError(f"{path}: cannot be created: {error.strerror}. {hint}", path) from None
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(made, 0o666 & ~mask)
        os.replace(made, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(made)
        raise IoError(f"{path}: cannot be written: {error.strerror}", path) from None


def _width(stream: IO[str]) -> int:
    """Returns the characters per line: COLUMNS, the terminal's width, or else 80."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return max(20, int(columns))
    with contextlib.suppress(OSError, ValueError):
        return max(20, os.get_terminal_size(stream.fileno()).columns or 80)
    return 80


def _print(text: str) -> None:
    """Prints to standard output. Raises IoError if that fails."""
    try:
        if sys.stdout is None:
            raise OSError(9, os.strerror(9))
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        sys.stdout = None  # type: ignore[assignment]  # not flushed again at exit
        raise IoError(f"standard output: cannot be written: {error.strerror}", "standard output") from None


def _import(options: argparse.Namespace) -> int:
    imported = import_config(
        _read(options.FILE),
        options.FILE,
        options.system,
        preset=options.preset,
        overrides=options.override,
        environment=os.environ,
        read_file=_read_named,
    )
    if imported.missing and not options.allow_missing:
        print(import_table(imported, _width(sys.stderr)), file=sys.stderr)
        _print_error(
            f"nothing is written: of the settings of memory, batches, the mesh and the loss, {len(imported.missing)} could not be "
            "determined; with --allow-missing, Evenkeel's defaults are used instead"
        )
        return 1
    if options.output is None:
        _print(imported.yaml)
        print(import_table(imported, _width(sys.stderr)), file=sys.stderr, end="")
    else:
        _write(options.output, imported.yaml)
        _print(import_table(imported, _width(sys.stdout)))
    return 0


def _print_error(message: str) -> None:
    print(f"evenkeel-import: error: {message}", file=sys.stderr)


def run(arguments: list[str]) -> int:
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # if the reader has closed the pipe, the command ends silently
    try:
        return _import(_parser().parse_args(arguments))
    except Error as error:
        _print_error(str(error))
        return 2 if isinstance(error, ConfigError) else 1
