"""Plans one step with Evenkeel and with the code of installed training frameworks, and compares the plans by the same figures.

    python3 -m evenkeel.compare lengths.csv --with verl --dp 64 --max-tokens 32768
"""

from __future__ import annotations

import argparse
import csv
import importlib.metadata
import itertools
import logging
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, NoReturn

import numpy as np

from evenkeel import _c
from evenkeel._peers import PEERS, Clock, Peer, Piece, Ranks, Way
from evenkeel.balance import CostModel, max_sum_lower_bound
from evenkeel.errors import ConfigError, Error
from evenkeel.planning import plan

__all__ = ["Figures", "Step", "compare_plans", "evaluate", "main"]


class Step(NamedTuple):
    """The step to plan: the lengths of its samples, DP ranks, the cap in tokens, and the cost model."""

    lengths: list[int]
    dp: int
    cap: int
    cost: CostModel


class Figures(NamedTuple):
    """Figures that describe the quality of a plan."""

    micro_batches: int  # of the rank with the most
    above_cap: int  # number of micro-batches
    fullest_over_cap: float  # tokens in the fullest micro-batch / cap
    padding: float  # padding / the samples' tokens
    cut_samples: int  # samples split across micro-batches or ranks
    wrong_samples: int  # samples with missing or repeated tokens
    end_over_bound_once: float  # duration / lower bound if ranks synchronize once per step
    end_over_bound_every_micro_batch: float  # the same if ranks synchronize at each micro-batch


def evaluate(step: Step, ranks: Ranks) -> Figures:
    """Computes the figures of a plan. The lower bound assumes that samples are not cut and micro-batches have no overhead."""
    pieces = [p for rank in ranks for m in rank for p in m]
    held = np.bincount([p.sample for p in pieces], [p.tokens / p.ranks for p in pieces], len(step.lengths))
    sizes = [sum((p.tokens + p.padding) / p.ranks for p in m) for rank in ranks for m in rank]
    work: list[list[float]] = [[sum((step.cost(p.tokens + p.padding) / p.ranks for p in m), 0.0) for m in rank] for rank in ranks]
    bound = max_sum_lower_bound(step.cost(step.lengths), step.dp)
    return Figures(
        micro_batches=max(map(len, ranks)),
        above_cap=sum(size > step.cap for size in sizes),
        fullest_over_cap=max(sizes) / step.cap,
        padding=sum(p.padding / p.ranks for p in pieces) / sum(step.lengths),
        cut_samples=len({p.sample for p in pieces if p.tokens != step.lengths[p.sample] or p.ranks > 1}),
        wrong_samples=int(np.count_nonzero(np.rint(held) != step.lengths)),
        end_over_bound_once=max(sum(rank) for rank in work) / bound,
        end_over_bound_every_micro_batch=sum(max(at_once) for at_once in itertools.zip_longest(*work, fillvalue=0.0)) / bound,
    )


def _evenkeel(cost: CostModel, meet: str) -> Way:
    def way(lengths: list[int], dp: int, cap: int, call: Clock) -> Ranks:
        balance = {"cost": {"linear": cost.linear, "quadratic": cost.quadratic}, "meet": meet}
        found = call(plan, lengths, mesh={"dp": dp}, micro_batch={"max_tokens": cap}, balance=balance)
        return [[[Piece(sample, lengths[sample]) for sample in m.samples.tolist()] for m in rank.micro_batches] for rank in found.ranks]

    return way


def _installed(package: str) -> tuple[str, Peer]:
    """Returns the package's name with its version, and how it plans."""
    if package not in PEERS:
        _c.refuse("packages (--with)", f"'{package}' is unknown", f"Name one of {', '.join(PEERS)}")
    try:
        return f"{package} {importlib.metadata.version(package)}", PEERS[package]
    except importlib.metadata.PackageNotFoundError:
        _c.refuse("packages (--with)", f"{package} is not installed", f"Install it: python3 -m pip install {package}=={PEERS[package].tested}")


def _measure(step: Step, way: Way) -> tuple[Figures, float]:
    """Returns the figures, and the minimum of up to three times in milliseconds, since the first plan also allocates memory."""
    times: list[float] = []
    start = time.perf_counter()
    while not times or (len(times) < 3 and time.perf_counter() - start < 1):
        clock = Clock()
        ranks = way(step.lengths, step.dp, step.cap, clock)
        times.append(clock.milliseconds)
    return evaluate(step, ranks), min(times)


def compare_plans(step: Step, packages: Iterable[str]) -> Iterator[tuple[str, Figures, float]]:
    """Yields the name of each way to plan, its figures, and the milliseconds that planning takes.

    Raises LimitError for a sample above the cap, and InputError for a package that is unknown, not installed or fails.
    """
    peers = [_installed(package) for package in packages]
    for meet in ("step", "micro-batch"):
        yield f"evenkeel, meet: {meet}", *_measure(step, _evenkeel(step.cost, meet))
    if len(step.lengths) % step.dp:
        _c.refuse("LENGTHS", f"the number of samples, {len(step.lengths)}, is not a multiple of the number of DP ranks, {step.dp}, "
                  "but frameworks give each rank the same number of samples",
                  "Leave out some samples, or choose another number of ranks (--dp)")
    for name, peer in peers:
        for word, way in peer.ways.items():
            try:
                yield f"{name}, {word}", *_measure(step, way)
            except Exception as error:
                _c.refuse(f"{name}, {word}", f"cannot plan this step: {type(error).__name__}: {error}",
                          "" if name.endswith(f" {peer.tested}") else f"Install version {peer.tested}, which was tested")


# Command line.


def read_lengths(path: str) -> list[int]:
    """Reads lengths from a .csv with the column length, or prompt_length and response_length, or with one number per line."""
    try:
        with open(path, newline="", encoding="utf-8") as file:
            reader = csv.reader(file)
            rows = [(reader.line_num, row) for row in reader if row]
    except (OSError, ValueError) as error:
        _c.raise_error("io", path, f"cannot be read: {error}")
    header = [name.strip() for name in rows[0][1]] if rows else []
    names = ["length"] if "length" in header else ["prompt_length", "response_length"]
    columns = [header.index(name) for name in names] if set(names) <= set(header) else []
    lengths = [_length_of(row, columns, f"{path}:{line}") for line, row in rows[1 if columns else 0 :]]
    return lengths or _c.refuse(path, "has no lengths", "Write one length per line")


def _length_of(row: list[str], columns: list[int], where: str) -> int:
    text = ",".join(row)
    try:
        length = sum(int(row[column]) for column in columns) if columns else int(text)
    except (ValueError, IndexError):
        _c.refuse(where, f"cannot read a length from '{text}'",
                  "Write whole numbers: one per line, or in the column length, or in prompt_length and response_length")
    return length if length > 0 else _c.refuse(where, f"the length is {length}; a sample must have at least 1 token")


def text_of(step: Step, found: list[tuple[str, Figures, float]]) -> str:
    """Returns a description of the step and the table of figures."""
    rows = [["way", "micro-", "above", "fullest", "padding", "samples", "once /", "at each", "ms"],
            ["", "batches", "cap", "/ cap", "", "cut", "bound", "/ bound", ""]]
    for name, f, milliseconds in found:
        rows.append([name, f"{f.micro_batches:,}", f"{f.above_cap:,}", f"{f.fullest_over_cap:.3f}", f"{100 * f.padding:.1f}%",
                     f"{f.cut_samples:,}", f"{f.end_over_bound_once:.4f}", f"{f.end_over_bound_every_micro_batch:.4f}", f"{milliseconds:.1f}"])
    widths = [max(map(len, column)) for column in zip(*rows)]
    quadratic = "" if step.cost.quadratic == 1 else f"{step.cost.quadratic:,} * "

    def many(number: int, thing: str) -> str:
        return f"{number:,} {thing}{'' if number == 1 else 's'}"

    text = (f"{many(len(step.lengths), 'sample')}, {many(sum(step.lengths), 'token')} on {many(step.dp, 'DP rank')}, at most "
            f"{many(step.cap, 'token')} per micro-batch; cost = {step.cost.linear:,} * length + {quadratic}length^2\n")
    for name, *cells in rows:
        text += "  ".join([name.ljust(widths[0]), *map(str.rjust, cells, widths[1:])]).rstrip() + "\n"
    text += "once, at each: when the step ends if ranks meet once, or at each micro-batch\n"
    return text + "".join(f"{name}: tokens of {f.wrong_samples:,} sample{'' if f.wrong_samples == 1 else 's'} are missing or repeated\n"
                          for name, f, _ in found if f.wrong_samples)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}. See: python3 -m evenkeel.compare --help")


def _count(text: str) -> int:
    try:
        count = int(text)
    except ValueError:
        count = 0
    if count < 1:
        raise argparse.ArgumentTypeError(f"is '{text}'; it must be a whole number of at least 1")
    return count


def _parser() -> _Parser:
    parser = _Parser(prog="python3 -m evenkeel.compare",
                     description="Plan one step with Evenkeel and with the code of installed frameworks, and compare the plans.",
                     epilog="Exit status: 0 success; 1 the work failed; 2 the command line is wrong.")
    parser.add_argument("lengths", metavar="LENGTHS",
                        help=".csv with the column length, or prompt_length and response_length, or with one number per line")
    parser.add_argument("--with", dest="packages", metavar="NAMES", required=True, help=f"frameworks, separated by commas: {', '.join(PEERS)}")
    parser.add_argument("--dp", type=_count, required=True, help="data-parallel ranks")
    parser.add_argument("--max-tokens", type=_count, required=True, help="the cap of a micro-batch")
    parser.add_argument("--linear", type=int, default=CostModel.flops_7b().linear, help="work of a token (%(default)s)")
    parser.add_argument("--quadratic", type=int, default=CostModel.flops_7b().quadratic, help="work of a squared length (%(default)s)")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    try:
        given = _parser().parse_args(arguments)
        cost = CostModel(linear=given.linear, quadratic=given.quadratic)
        step = Step(read_lengths(given.lengths), given.dp, given.max_tokens, cost)
        print(text_of(step, list(compare_plans(step, given.packages.split(",")))), end="")
    except Error as error:
        print(f"evenkeel.compare: error: {error}", file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 1
    return 0


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # frameworks warn about missing kernels, which planning does not need
    logging.disable(logging.WARNING)
    sys.exit(main())
