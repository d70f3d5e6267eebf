#!/usr/bin/env python3
"""Prints a lower bound on the duration of plans with `mesh.cp: flexible` and `balance.strategy: grid`.

    python3 bench/tight_bound.py lengths.csv --dp 64 --max-tokens-per-rank 16384 --linear 24576 --quadratic 1

The bound is the solution of a mixed integer program, which HiGHS solves through SciPy. docs/flexible-cp.md explains the program
and proves the bound. The options are named like the configuration's keys.
"""

import argparse
import csv
import dataclasses
import json
import math
import sys

import numpy as np
from scipy import optimize, sparse

MOST_LONG = 64  # maximum number of long samples with their own variables
GRAINS = 16  # number of values of work per token that represent all other samples
CLASS_RATIO = 1.04  # ratio of the limits of a class of heights
SOLVER_ERROR = 1e-5  # larger than HiGHS's tolerances


@dataclasses.dataclass(frozen=True)
class Job:
    """The mesh, the cap and the costs of a plan."""

    dp: int
    max_tokens_per_rank: int
    linear: int = 1
    quadratic: int = 0
    overhead: int = 0
    inside_node: int = 0
    between_nodes: int = 0
    ranks_per_node: int = 1
    overlap: float = 1.0
    tp: int = 1
    max_cp: int = 0  # 0: dp

    def sizes(self) -> list[int]:
        """Returns the possible sizes of groups."""
        largest = self.max_cp or self.dp
        return [2**power for power in range(largest.bit_length())]

    def tokens(self, lengths: np.ndarray, size: int) -> np.ndarray:
        """Returns the numbers of tokens with the padding of a group of `size`."""
        alignment = self.tp * (2 * size if size > 1 else 1)
        return -(-lengths // alignment) * alignment

    def work(self, lengths: np.ndarray) -> np.ndarray:
        return (self.linear + self.quadratic * lengths) * lengths

    def exposed(self, lengths: np.ndarray, size: int) -> np.ndarray:
        """Returns communication minus all the attention that could hide it, which may be negative."""
        hop = 0 if size == 1 else self.inside_node if size <= self.ranks_per_node else self.between_nodes
        return hop * (size - 1) * lengths - self.overlap * self.quadratic * lengths**2

    def times(self, lengths: np.ndarray) -> np.ndarray:
        """Returns the time of each sample alone on each size of group; infinite if it does not fit."""
        columns = []
        for size in self.sizes():
            time = self.overhead + (self.work(lengths) + np.maximum(0, self.exposed(lengths, size))) / size
            columns.append(np.where(self.tokens(lengths, size) <= size * self.max_tokens_per_rank, time, np.inf))
        return np.stack(columns, axis=1)


def simple_bound(job: Job, lengths: np.ndarray) -> float:
    """Returns the larger of all work divided by all ranks, and the longest sample on its best group."""
    if not len(lengths):
        return 0.0
    groups = max(1, -(-int(lengths.sum()) // job.max_tokens_per_rank))
    return max(job.times(lengths).min(axis=1).max(), (job.work(lengths).sum() + groups * job.overhead) / job.dp)


@dataclasses.dataclass
class Items:
    """The items distributed over groups: each row is one or more equal long samples, or a grain of the other samples.

    `tokens`, `work` and `hidden` have one column for each size of group.
    """

    amount: np.ndarray  # number of samples in a row; 1 for a grain
    is_long: np.ndarray
    time: np.ndarray  # of the sample alone; 0 for grains
    tokens: np.ndarray
    work: np.ndarray  # with communication that other samples cannot hide
    hidden: np.ndarray  # with communication, minus all attention that could hide it


def company_hides(job: Job, lengths: np.ndarray, size: int) -> np.ndarray:
    """Returns the most that each sample adds to what hides the communication of others in its group."""
    return np.maximum(0, -job.exposed(lengths, size))


def long_items(job: Job, lengths: np.ndarray, counts: np.ndarray, everything: np.ndarray) -> Items:
    exposed, tokens = [], []
    for size in job.sizes():
        exposed.append(job.exposed(lengths, size))
        tokens.append(job.tokens(lengths, size))
    hidden, tokens = np.stack(exposed, axis=1), np.stack(tokens, axis=1)
    # Communication is certainly exposed if no sample of the step has attention to spare in a group of that size.
    alone = np.maximum(0, hidden)
    for level, size in enumerate(job.sizes()):
        if company_hides(job, everything, size).any():
            alone[:, level] = 0
    work = job.work(lengths)[:, None]
    return Items(counts, np.ones(len(lengths), bool), job.times(lengths), tokens, work + alone, work + hidden)


def grains(job: Job, lengths: np.ndarray) -> Items:
    """Represents the samples by a few values of work per token, with the same total tokens and work."""
    lengths = lengths[lengths > 0]
    density = job.work(lengths) / lengths
    edges = np.unique(density)
    if len(edges) > GRAINS:
        inner = np.geomspace(max(edges[0], edges[-1] / 4096), edges[-1], GRAINS)[1:-1]
        edges = np.unique(np.concatenate([edges[[0, -1]], inner]))
    tokens, hidden = np.zeros(len(edges)), np.full((len(edges), len(job.sizes())), np.inf)
    spare = np.stack([job.exposed(lengths, size) / lengths for size in job.sizes()], axis=1)
    below = np.clip(np.searchsorted(edges, density, side="right") - 1, 0, max(0, len(edges) - 2))
    for at in range(len(edges)):
        for neighbor, other in ((below == at, at + 1), (below + 1 == at, at - 1)):
            if not neighbor.any():
                continue
            share = 1.0
            if len(edges) > 1:
                share = np.clip((density[neighbor] - edges[other]) / (edges[at] - edges[other]), 0, 1)
            tokens[at] += (lengths[neighbor] * share).sum()
            hidden[at] = np.minimum(hidden[at], spare[neighbor].min(axis=0))
    used = tokens > 0
    tokens, edges, hidden = tokens[used], edges[used], hidden[used]
    work = np.repeat((tokens * edges)[:, None], len(job.sizes()), axis=1)
    rows = len(tokens)
    columns = np.repeat(tokens[:, None], len(job.sizes()), axis=1)
    return Items(
        np.ones(rows), np.zeros(rows, bool), np.zeros_like(work), columns, work, work + hidden * tokens[:, None]
    )


def all_items(job: Job, lengths: np.ndarray, bound: float) -> Items:
    """Returns long samples, which need several ranks or much of the step's time, and grains of all others."""
    lengths = np.sort(lengths)[::-1]
    best = job.times(lengths)
    candidates = np.flatnonzero((best[:, 0] > bound / 4) | (best[:, 0] == np.inf))[:MOST_LONG]
    is_long = np.zeros(len(lengths), bool)
    is_long[candidates] = True
    equal, counts = np.unique(lengths[is_long], return_counts=True)
    parts = [long_items(job, equal, counts, lengths), grains(job, lengths[~is_long])]
    return Items(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in dataclasses.fields(Items)))


def height_classes(items: Items, highest: float) -> np.ndarray:
    """Returns limits of classes of heights. The waves of the lowest class have no long samples."""
    least = items.time.min(axis=1)[items.is_long]
    if not len(least):
        return np.array([0, highest])
    first, last = least.min(), least.max()
    count = max(1, math.ceil(math.log(highest / first) / math.log(CLASS_RATIO)))
    return np.unique(np.concatenate([[0], np.geomspace(first, highest, count + 1), [first, last]]))


class WaveProgram:
    """The mixed integer program over classes of waves of similar height; see docs/flexible-cp.md."""

    def __init__(self, job: Job, items: Items, limits: np.ndarray, most_waves: int):
        self.job, self.items, self.most_waves = job, items, most_waves
        self.low, self.high = limits[:-1], limits[1:]
        self.classes, self.levels, self.count = len(self.low), len(job.sizes()), len(items.amount)
        self._rows: list[tuple[np.ndarray, np.ndarray]] = []
        self._most: list[float] = []
        # Waves and their total height in each class, groups of each size in each class, and shares of items.
        self.num_groups = self.classes * self.levels
        self.first_share = 2 * self.classes + self.num_groups
        self.variables = self.first_share + self.count * self.num_groups

    def waves(self, at: int) -> int:
        return at

    def height(self, at: int) -> int:
        return self.classes + at

    def groups(self, at: int, level: int) -> int:
        return 2 * self.classes + at * self.levels + level

    def shares(self, at: int, level: int) -> np.ndarray:
        return self.first_share + np.arange(self.count) * self.num_groups + at * self.levels + level

    def require(self, columns: list, values: list, most: float = 0.0) -> None:
        """Requires that the sum of values times variables is at most `most`."""
        self._rows.append((np.concatenate(columns), np.concatenate(values)))
        self._most.append(most)

    def limit_group(self, at: int, level: int, use: np.ndarray, of_group: float) -> None:
        self.require([self.shares(at, level), [self.groups(at, level)]], [use, [-of_group]])

    def build(self) -> None:
        job, items, sizes = self.job, self.items, self.job.sizes()
        for at in range(self.classes):
            busy = self.high[at] - job.overhead
            self.require([[self.height(at), self.waves(at)]], [[-1.0, self.low[at]]])
            self.require([[self.height(at), self.waves(at)]], [[1.0, -self.high[at]]])
            in_class = [self.groups(at, level) for level in range(self.levels)]
            for level, size in enumerate(sizes):  # blocks of `size` ranks in groups that are not smaller
                blocks = np.array(sizes[level:], float) / size
                self.require([in_class[level:], [self.waves(at)]], [blocks, [-float(job.dp // size)]])
            for field in ("work", "hidden"):
                use = getattr(items, field)
                columns = [self.shares(at, level) for level in range(self.levels)]
                values = [use[:, level] for level in range(self.levels)]
                self.require(
                    [*columns, in_class, [self.height(at)]],
                    [*values, job.overhead * np.array(sizes, float), [-float(job.dp)]],
                )
            for level, size in enumerate(sizes):
                tokens, work = items.tokens[:, level], items.work[:, level]
                cap = float(size * job.max_tokens_per_rank)
                self.limit_group(at, level, tokens, cap)
                self.limit_group(at, level, (items.is_long & (2 * tokens > cap)) * 1.0, 1.0)
                self.limit_group(at, level, work, size * busy)
                self.limit_group(at, level, (items.is_long & (2 * work > size * busy)) * 1.0, 1.0)
                self.limit_group(at, level, items.hidden[:, level], size * busy)
        for item in np.flatnonzero(items.is_long):
            for at in range(self.classes):
                columns = np.array([self.shares(at, level)[item] for level in range(self.levels)])
                fits = items.time[item] <= self.high[at]
                if fits.any() and items.amount[item] == 1:
                    self.require([columns[fits], [self.height(at)]], [items.time[item][fits], [-1.0]])

    def upper_limits(self) -> np.ndarray:
        """Returns upper limits of variables. A sample is not on a group on which it alone takes longer than the wave. Limits
        are finite, since HiGHS in SciPy 1.10 considers some programs with infinite limits infeasible."""
        upper = np.full(self.variables, float(self.most_waves))
        upper[self.classes : 2 * self.classes] = 1
        upper[2 * self.classes : self.first_share] *= self.job.dp
        for at in range(self.classes):
            for level in range(self.levels):
                fits = self.items.time[:, level] <= self.high[at] * (1 + 1e-12)
                if at == 0 and self.classes > 1:
                    fits &= ~self.items.is_long
                upper[self.shares(at, level)] = np.where(fits, self.items.amount, 0)
        return upper

    def solve(self, seconds: float) -> float:
        """Returns the best proven lower bound on the total height, in the units of the costs."""
        self.build()
        unit = self.high[-1]
        lengths = [len(columns) for columns, _ in self._rows]
        matrix = sparse.csr_matrix(
            (
                np.concatenate([values for _, values in self._rows]),
                np.concatenate([columns for columns, _ in self._rows]).astype(int),
                np.concatenate([[0], np.cumsum(lengths)]),
            ),
            shape=(len(self._rows), self.variables),
        )
        # For accuracy, heights are in units of the largest one, and rows are scaled.
        scale = np.ones(self.variables)
        scale[self.classes : 2 * self.classes] = unit
        matrix = matrix @ sparse.diags(scale)
        largest = np.maximum(abs(matrix).max(axis=1).toarray().ravel(), 1e-300)
        matrix = sparse.diags(1 / largest) @ matrix
        every = sparse.csr_matrix(
            (
                np.ones(self.count * self.num_groups),
                self.first_share + np.arange(self.count * self.num_groups),
                np.arange(self.count + 1) * self.num_groups,
            ),
            shape=(self.count, self.variables),
        )
        objective = np.zeros(self.variables)
        objective[self.classes : 2 * self.classes] = 1
        integral = np.zeros(self.variables)
        integral[: self.classes] = 1
        solved = optimize.milp(
            objective,
            integrality=integral,
            bounds=optimize.Bounds(0, self.upper_limits()),
            constraints=[
                optimize.LinearConstraint(matrix, -np.inf, np.array(self._most) / largest),
                optimize.LinearConstraint(every, self.items.amount, self.items.amount),
            ],
            options={"time_limit": seconds, "mip_rel_gap": 1e-4},
        )
        if solved.status == 2:  # infeasible: every schedule has a wave above the highest
            return unit
        proven = solved.get("mip_dual_bound")
        return 0.0 if proven is None or not np.isfinite(proven) else proven * unit * (1 - SOLVER_ERROR)


def tight_bound(job: Job, lengths: np.ndarray, known_end: float | None = None, seconds: float = 60) -> float:
    """Returns a time before which no schedule of waves ends. The known end of a schedule makes the program smaller."""
    bound = simple_bound(job, lengths)
    if bound == 0:
        return 0.0
    highest = known_end if known_end is not None else 2 * bound
    if highest <= bound:
        return bound
    items = all_items(job, lengths, bound)
    proven = WaveProgram(job, items, height_classes(items, highest), len(lengths)).solve(seconds)
    return max(bound, min(proven, highest))


def read_lengths(path: str) -> np.ndarray:
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if rows and "length" in rows[0]:
        return np.array([int(row["length"]) for row in rows])
    if rows and {"prompt_length", "response_length"} <= rows[0].keys():
        return np.array([int(row["prompt_length"]) + int(row["response_length"]) for row in rows])
    sys.exit(f"{path}: has no column length, nor prompt_length and response_length. Add one of these as its first line")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lengths", help="a CSV file with a column length, or prompt_length and response_length")
    for field in dataclasses.fields(Job):
        option = "--" + field.name.replace("_", "-")
        kind = float if field.name == "overlap" else int
        required = field.default is dataclasses.MISSING
        parser.add_argument(option, type=kind, required=required, default=None if required else field.default)
    parser.add_argument("--plan", help="what `evenkeel plan --json` wrote: says how far it is from the bound")
    parser.add_argument("--seconds", type=float, default=60, help="time limit of the solver; the bound holds in any case")
    given = parser.parse_args()
    job = Job(**{field.name: getattr(given, field.name) for field in dataclasses.fields(Job)})
    lengths = read_lengths(given.lengths)
    if (job.times(lengths).min(axis=1, initial=np.inf) == np.inf).any():
        sys.exit(f"{given.lengths}: the longest sample has {lengths.max()} tokens, which the largest group of "
                 f"{job.sizes()[-1]} ranks does not hold. Raise --max-tokens-per-rank")
    plan = None
    if given.plan:
        with open(given.plan, encoding="utf-8") as file:
            plan = json.load(file)
    bound = tight_bound(job, lengths, plan["end"] if plan else None, given.seconds)
    print(f"simple bound {simple_bound(job, lengths):.3g}, bound for waves {bound:.3g}")
    if plan:
        print(f"the plan ends {100 * (plan['end'] / bound - 1):.1f} % after the bound for waves")


if __name__ == "__main__":
    main()
