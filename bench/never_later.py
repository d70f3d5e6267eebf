#!/usr/bin/env python3
"""Compares the durations of plans of `evenkeel plan` with those of simple alternatives, on lengths drawn from files.

Each draw chooses a file, a number of samples, DP ranks, a cap, the overhead of a micro-batch, and where ranks
synchronize. The alternatives are Evenkeel's other strategies, Karmarkar-Karp with equal counts, Karmarkar-Karp
with free counts, and best-fit bins; pairs of samples are then swapped until no swap shortens the step.
The script checks that every plan is legal: it has each sample once, and no micro-batch is above the cap.
Lists the cases in which the default plan ends later than the best alternative by more than --tolerance, and
then exits with 1. With --flexible, compares flexible context parallelism for ranks that synchronize once per
step with that for ranks that synchronize at every micro-batch, whose groups they could use.

    python3 bench/never_later.py build/release/bin/evenkeel lengths.csv --draws 200
"""

from __future__ import annotations

import argparse
import bisect
import csv
import dataclasses
import heapq
import json
import pathlib
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator

LINEAR, QUADRATIC = 24576, 1  # balance.cost: flops-7b


@dataclasses.dataclass
class Case:
    name: str
    lengths: list[int]
    dp: int
    cap: int
    overhead_tokens: int
    meet: str
    free_counts: bool = False

    def cost(self, sample: int) -> int:
        return LINEAR * self.lengths[sample] + QUADRATIC * self.lengths[sample] ** 2

    @property
    def overhead(self) -> int:
        return LINEAR * self.overhead_tokens

    def __str__(self) -> str:
        counts = ", free counts" if self.free_counts else ""
        return (f"{self.name}, {len(self.lengths)} samples, dp {self.dp}, cap {self.cap}, "
                f"overhead {self.overhead_tokens}, meet: {self.meet}{counts}")


Ranks = list[list[list[int]]]  # the samples of each micro-batch of each DP rank


def end_of(case: Case, ranks: Ranks) -> int:
    """Returns when a legal plan ends; raises ValueError if it is illegal."""
    if sorted(s for rank in ranks for m in rank for s in m) != list(range(len(case.lengths))):
        raise ValueError(f"{case}: a plan does not hold each sample once")
    for rank in ranks:
        for m in rank:
            if sum(case.lengths[s] for s in m) > case.cap:
                raise ValueError(f"{case}: a micro-batch is above the cap")
    costs = [[sum(map(case.cost, m)) for m in rank] for rank in ranks]
    count = max(map(len, ranks))
    if case.meet == "micro-batch":
        padded = [rank + [0] * (count - len(rank)) for rank in costs]
        return sum(max(column) for column in zip(*padded)) + count * case.overhead
    if case.free_counts:
        return max(sum(rank) + max(len(rank), 1) * case.overhead for rank in costs)
    return max(map(sum, costs)) + count * case.overhead


# Evenkeel's plans.


def planned(program: str, case: Case, settings: list[str], folder: pathlib.Path) -> Ranks:
    lengths = folder / "lengths.csv"
    plan = folder / "plan.json"
    lengths.write_text("length\n" + "\n".join(map(str, case.lengths)) + "\n")
    keys = [f"mesh.dp={case.dp}", f"micro_batch.max_tokens={case.cap}", "balance.cost=flops-7b",
            f"balance.overhead={case.overhead}", f"balance.meet={case.meet}"]
    if case.free_counts:
        keys.append("micro_batch.equal_counts=auto")
    command = [program, "plan", "--lengths", str(lengths), "--json", str(plan)]
    for key in keys + settings:
        command += ["--set", key]
    subprocess.run(command, check=True, capture_output=True, text=True)
    ranks = json.loads(plan.read_text())["ranks"]
    return [[m["samples"] for m in rank["micro_batches"]] for rank in ranks]


STRATEGIES = {
    "hierarchical": ["balance.strategy=hierarchical"],
    "hierarchical, count: fastest": ["balance.strategy=hierarchical", "micro_batch.count=fastest"],
    "count: fastest": ["micro_batch.count=fastest"],
    "grid": ["balance.strategy=grid"],
}


# Simple alternatives.


def differenced(costs: list[int], groups: int, run: int) -> list[list[int]]:
    """Karmarkar-Karp. With runs of `groups` items in sorted order, the groups' numbers of items differ by at most one."""
    order = sorted(range(len(costs)), key=lambda i: costs[i])
    pad = -len(order) % run
    items = [None] * pad + order
    heap = []
    for at in range(0, len(items), run):
        sets = [(0 if i is None else costs[i], [] if i is None else [i]) for i in items[at : at + run]]
        sets = sorted(sets + [(0, [])] * (groups - len(sets)), key=lambda s: -s[0])
        heap.append((sets[-1][0] - sets[0][0], at, sets))
    heapq.heapify(heap)
    number = len(items)
    while len(heap) > 1:
        left, right = heapq.heappop(heap)[2], heapq.heappop(heap)[2]
        sets = sorted(((a[0] + b[0], a[1] + b[1]) for a, b in zip(left, reversed(right))), key=lambda s: -s[0])
        heapq.heappush(heap, (sets[-1][0] - sets[0][0], number, sets))
        number += 1
    return [items for _, items in heap[0][2]] if heap else [[] for _ in range(groups)]


def best_fit(case: Case, samples: list[int]) -> list[list[int]]:
    """Bins under the cap, in descending order of length: each sample goes to the fullest bin that has room for it."""
    bins: list[list[int]] = []
    rooms: list[tuple[int, int]] = []
    for sample in sorted(samples, key=lambda s: -case.lengths[s]):
        at = bisect.bisect_left(rooms, (case.lengths[sample], -1))
        if at == len(rooms):
            bins.append([])
            rooms.insert(at, (case.cap, len(bins) - 1))
            at = bisect.bisect_left(rooms, (case.cap, len(bins) - 1))
        room, number = rooms.pop(at)
        bins[number].append(sample)
        bisect.insort(rooms, (room - case.lengths[sample], number))
    return bins


def swapped(case: Case, groups: list[list[int]], fits, fixed_cost, moves: bool = False) -> list[list[int]]:
    """Swaps (or moves) samples of the costliest group, always with the greatest gain, until that does not help."""
    groups = [sorted(group, key=case.cost) for group in groups]
    costs = [[case.cost(s) for s in group] for group in groups]
    sums = [sum(own) + fixed_cost(group) for own, group in zip(costs, groups)]
    for _ in range(20 * len(groups) + 200):
        top = max(range(len(groups)), key=lambda g: sums[g])
        found = []
        for other in range(len(groups)):
            gap = sums[top] - sums[other]
            if other == top or gap < 2:
                continue
            for i, given in enumerate(costs[top]):
                at = bisect.bisect_left(costs[other], given - gap // 2)
                for j in (at - 1, at):
                    if 0 <= j < len(costs[other]) and 0 < given - costs[other][j] < gap:
                        shift = given - costs[other][j]
                        found.append((max(sums[top] - shift, sums[other] + shift), other, i, j))
                if moves and given < gap:
                    found.append((max(sums[top] - given, sums[other] + given), other, i, -1))
        for _, other, i, j in heapq.nsmallest(16, found):
            first = groups[top][:i] + groups[top][i + 1 :] + ([groups[other][j]] if j >= 0 else [])
            second = groups[other][:j] + groups[other][j + 1 :] if j >= 0 else list(groups[other])
            second.append(groups[top][i])
            if not (fits(first) and fits(second)):
                continue
            new = [sum(map(case.cost, group)) + fixed_cost(group) for group in (first, second)]
            if max(new) >= sums[top]:
                continue
            for g, group, total in zip((top, other), (first, second), new):
                groups[g] = sorted(group, key=case.cost)
                costs[g] = [case.cost(s) for s in groups[g]]
                sums[g] = total
            break
        else:
            return groups
    return groups


def most_bins(case: Case, groups: list[list[int]]) -> int:
    return max(len(best_fit(case, group)) for group in groups)


def alternatives_once(case: Case) -> Iterator[tuple[str, Ranks]]:
    costs = [case.cost(s) for s in range(len(case.lengths))]
    bins = sorted(best_fit(case, list(range(len(costs)))), key=lambda m: -sum(costs[s] for s in m))
    dealt: list[list[int]] = [[] for _ in range(case.dp)]
    room = [-(-len(bins) // case.dp)] * case.dp
    for m in bins:
        rank = min((r for r in range(case.dp) if room[r]), key=lambda r: sum(costs[s] for s in dealt[r]))
        room[rank] -= 1
        dealt[rank] += m
    starts = {
        "equal-count Karmarkar-Karp": differenced(costs, case.dp, case.dp),
        "free Karmarkar-Karp": differenced(costs, case.dp, 1),
        "best fit": dealt,
    }
    for name, start in starts.items():
        yield name, [best_fit(case, group) for group in start]
        count = most_bins(case, start)
        moves = name != "equal-count Karmarkar-Karp"
        groups = swapped(case, start, lambda g: len(best_fit(case, g)) <= count, lambda g: 0, moves)
        yield name + " with swaps", [best_fit(case, group) for group in groups]
        if case.free_counts:
            groups = swapped(case, start, lambda g: True, lambda g: len(best_fit(case, g)) * case.overhead, moves)
            yield name + " with swaps, free counts", [best_fit(case, group) for group in groups]


def alternatives_meeting(case: Case) -> Iterator[tuple[str, Ranks]]:
    costs = [case.cost(s) for s in range(len(case.lengths))]
    bins = best_fit(case, list(range(len(costs))))
    least = -(-len(bins) // case.dp)

    def fits(group: list[int]) -> bool:
        return sum(case.lengths[s] for s in group) <= case.cap

    for count in range(least, least + 2):
        cells = case.dp * count
        starts = {
            "equal-count Karmarkar-Karp": differenced(costs, cells, cells),
            "free Karmarkar-Karp": differenced(costs, cells, 1),
            "best fit": bins + [[] for _ in range(cells - len(bins))],
        }
        for name, start in starts.items():
            if not all(map(fits, start)):
                continue
            for suffix, groups in (("", start), (" with swaps", swapped(case, start, fits, lambda g: 0, True))):
                ordered = sorted(groups, key=lambda m: -sum(costs[s] for s in m))
                ranks = [ordered[r :: case.dp] for r in range(case.dp)]
                yield f"{name}{suffix}, {count} micro-batches", ranks


def alternatives(case: Case) -> Iterator[tuple[str, Ranks]]:
    yield from (alternatives_meeting if case.meet == "micro-batch" else alternatives_once)(case)


# Cases.


def lengths_of(path: pathlib.Path) -> list[int]:
    with path.open() as file:
        return [sum(int(row[key]) for key in row if key.endswith("length")) for row in csv.DictReader(file)]


def drawn_cases(files: list[pathlib.Path], draws: int, seed: int, most: int) -> Iterator[Case]:
    draw = random.Random(seed)
    pools = {path.stem: lengths_of(path) for path in files}
    for _ in range(draws):
        name = draw.choice(sorted(pools))
        cap = draw.choice([16384, 32768, 65536, 131072])
        pool = [length for length in pools[name] if 0 < length <= cap]
        samples = draw.choice([n for n in (128, 256, 512, 1024, 2048) if n <= most])
        dp = draw.choice([8, 16, 32, 64, 128])
        overhead = draw.choice([256, 2048])
        meet = draw.choice(["step", "micro-batch"])
        free = meet == "step" and draw.random() < 0.5
        yield Case(name, draw.choices(pool, k=samples), dp, cap, overhead, meet, free)


# Flexible context parallelism.


def flexible_end(program: str, case: Case, meet: str, folder: pathlib.Path) -> int:
    lengths = folder / "lengths.csv"
    plan = folder / "plan.json"
    lengths.write_text("length\n" + "\n".join(map(str, case.lengths)) + "\n")
    command = [program, "plan", "--lengths", str(lengths), "--json", str(plan)]
    for key in ("mesh.cp=flexible", f"mesh.dp={case.dp}", f"micro_batch.max_tokens_per_rank={case.cap}",
                "balance.cost=flops-7b", f"balance.overhead={case.overhead}", f"balance.meet={meet}",
                f"balance.strategy={'hierarchical' if meet == 'step' else 'grid'}"):
        command += ["--set", key]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(plan.read_text())["end"]


def flexible_cases(files: list[pathlib.Path], draws: int, seed: int) -> Iterator[Case]:
    draw = random.Random(seed)
    pools = {path.stem: lengths_of(path) for path in files}
    for _ in range(draws):
        name = draw.choice(sorted(pools))
        dp, cap = draw.choice([16, 32, 64, 128]), draw.choice([4096, 8192, 16384])
        pool = [length for length in pools[name] if 0 < length <= dp * cap // 2]
        lengths = draw.choices(pool, k=draw.choice([128, 256, 512]))
        yield Case(name + ", flexible", lengths, dp, cap, draw.choice([256, 2048]), "step")


def excess_of_tree(program: str, case: Case, folder: pathlib.Path) -> tuple[float, str]:
    tree, waves = (flexible_end(program, case, meet, folder) for meet in ("step", "micro-batch"))
    return tree / min(tree, waves) - 1, "waves"


def excess_of_plan(program: str, case: Case, folder: pathlib.Path) -> tuple[float, str]:
    """Returns how much later the default plan ends than the best alternative, and the name of the alternative.

    The default makes as few micro-batches as possible; if ranks synchronize at each, more may end earlier.
    """
    settings = ["micro_batch.count=fastest"] if case.meet == "micro-batch" else []
    ours = end_of(case, planned(program, case, settings, folder))
    ends = {name: end_of(case, planned(program, case, settings, folder))
            for name, settings in STRATEGIES.items() if not (case.free_counts and name != "hierarchical")}
    ends |= {name: end_of(case, ranks) for name, ranks in alternatives(case)}
    best = min(ends, key=lambda name: ends[name])
    return ours / ends[best] - 1, best


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the program evenkeel")
    parser.add_argument("lengths", nargs="+", type=pathlib.Path,
                        help="CSV files with columns whose names end in length")
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most-samples", type=int, default=2048)
    parser.add_argument("--tolerance", type=float, default=0.001)
    parser.add_argument("--whole", metavar="DP:CAP", help="use each file as one case instead of drawing from it")
    parser.add_argument("--free-counts", action="store_true",
                        help="in half of the cases that meet once a step, ranks may have different counts")
    parser.add_argument("--flexible", action="store_true", help="draw cases of flexible context parallelism")
    options = parser.parse_args(arguments)
    if options.flexible:
        cases = list(flexible_cases(options.lengths, options.draws, options.seed))
    elif options.whole:
        dp, cap = map(int, options.whole.split(":"))
        cases = [Case(path.stem, lengths_of(path), dp, cap, overhead, meet, free) for path in options.lengths
                 for overhead in (256, 2048) for meet in ("step", "micro-batch")
                 for free in ((False, True) if meet == "step" else (False,))]
    else:
        cases = list(drawn_cases(options.lengths, options.draws, options.seed, options.most_samples))
    if not options.free_counts:
        cases = [dataclasses.replace(case, free_counts=False) for case in cases]
    later, worst = 0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        for case in cases:
            measure = excess_of_tree if options.flexible else excess_of_plan
            excess, best = measure(options.program, case, pathlib.Path(folder))
            worst = max(worst, excess)
            if excess > options.tolerance:
                later += 1
                print(f"{100 * excess:.2f} % later than {best}: {case}", flush=True)
    print(f"{later} of {len(cases)} plans end more than {100 * options.tolerance:g} % after the best alternative; "
          f"the worst of all by {100 * worst:.2f} %")
    return 1 if later else 0


if __name__ == "__main__":
    sys.exit(main())
