"""The command python3 -m evenkeel.convert."""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from evenkeel.convert import convert_tensors, to_jsonl
from evenkeel.convert._sources import files_of
from evenkeel.convert._tensors import ENDINGS
from evenkeel.errors import ConfigError, Error


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}. See: python3 -m evenkeel.convert --help")


def _parser() -> _Parser:
    parser = _Parser(prog="python3 -m evenkeel.convert", formatter_class=argparse.RawDescriptionHelpFormatter,
                     description="Turn Parquet and Arrow files, and JSON lines of chats or input_ids, into JSON lines of rollouts; "
                                 "and .npz and .npy files into .safetensors, or .safetensors into .npz.",
                     epilog="Reading Parquet and Arrow needs pyarrow. Exit status: 0 success; 1 the work failed; 2 the command line is wrong.")
    parser.add_argument("source", metavar="INPUT", nargs="+",
                        help="files or patterns: .parquet, .arrow, .feather, .ipc, .jsonl, .jsonl.gz; .npz, .npy, .safetensors")
    parser.add_argument("path", metavar="OUTPUT",
                        help="what to write: .jsonl, which evenkeel convert turns into other formats; .safetensors or .npz for tensors")
    parser.add_argument("--mask", metavar="COLUMN", help="the column that specifies which tokens carry loss; all: every token")
    parser.add_argument("--uid", metavar="COLUMN", default="uid",
                        help="the column that specifies which rows have the same prompt; default: uid")
    parser.add_argument("--messages", metavar="COLUMN", default="messages", help="the column of chats; default: messages")
    parser.add_argument("--tokenizer", metavar="NAME", help="the tokenizer that turns chats into tokens; needs transformers")
    parser.add_argument("--drop", metavar="COLUMNS", default="", help="leave these columns out, separated by commas")
    parser.add_argument("--as-is", metavar="COLUMNS", default="", help="keep these columns unchanged, with lists of any length")
    parser.add_argument("--at", metavar="COLUMN=CONVENTION", default="",
                        help="row conventions of lists, separated by commas: token, next or response")
    parser.add_argument("--overwrite", action="store_true", help="replace OUTPUT")
    return parser


def _conventions(text: str) -> dict[str, str]:
    at = {}
    for part in filter(None, text.split(",")):
        name, equals, word = part.rpartition("=")
        if not equals or not name:
            raise ConfigError(f"--at: {part!r} is not COLUMN=CONVENTION")
        at[name] = word
    return at


def _convert_tensors(names: Sequence[str], target: str, given: Mapping[str, Any]) -> int:
    if target.endswith(".npy"):
        raise ConfigError(f"{target}: can hold only one array. Write .npz, which can hold several")
    for name in names:
        if not name.endswith(ENDINGS):
            raise ConfigError(f"{name}: does not end in .npz, .npy or .safetensors, but {target} holds tensors. For rows, write .jsonl, "
                              "which evenkeel convert turns into .safetensors")
    for option in ("mask", "tokenizer", "drop", "as_is", "at"):
        if given[option]:
            raise ConfigError(f"--{option.replace('_', '-')}: applies only to rows of datasets, but {target} holds tensors")
    count = convert_tensors(names, pathlib.Path(target), overwrite=given["overwrite"])
    print(f"{target}: {count:,} tensor{'s' * (count != 1)}")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command. Returns its exit status."""
    try:
        given = vars(_parser().parse_args(arguments))
        names = [name for pattern in given.pop("source") for name in files_of(pattern)]
        target = given.pop("path")
        if pathlib.Path(target).suffix in ENDINGS:
            return _convert_tensors(names, target, given)
        if given["tokenizer"] is not None:
            try:
                from transformers import AutoTokenizer
            except ImportError as error:
                raise ImportError(f"--tokenizer: needs transformers, which cannot be imported ({error}). Install it: pip install "
                                  "transformers") from error

            given["tokenizer"] = AutoTokenizer.from_pretrained(given["tokenizer"])
        for option in ("drop", "as_is"):
            given[option] = [name for name in given[option].split(",") if name]
        given["at"] = _conventions(given["at"])
        summary = to_jsonl(names, target, **given)
    except ConfigError as error:
        print(f"evenkeel.convert: error: {error}", file=sys.stderr)
        return 2
    except (Error, ImportError) as error:
        print(f"evenkeel.convert: error: {error}", file=sys.stderr)
        return 1
    print(f"{target}: {summary.samples:,} sample{'s' * (summary.samples != 1)}, {summary.tokens:,} token{'s' * (summary.tokens != 1)}")
    if summary.without_response:
        print(f"evenkeel.convert: samples without any token with loss: {summary.without_response:,}", file=sys.stderr)
    if summary.read_as:
        print(f"evenkeel.convert: to read all columns, a job must set fields: {json.dumps(summary.read_as)}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
