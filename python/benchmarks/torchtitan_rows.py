"""Computes the numbers of docs/torchtitan.md: padding and planned time of torchtitan's rows,
in the environment of launch/test-frameworks.sh torchtitan."""

import numpy as np

from evenkeel.torchtitan import plan_rows

RANKS, SEQ_LEN = 8, 8192


def work(lengths):
    """Returns the work of a 7B model's forward pass, up to a factor: docs/benchmarks.md."""
    return sum(24576 * int(length) + int(length) ** 2 for length in lengths)


def next_fit(lengths):
    """Returns rows as torchtitan's ChatDataset and Batcher fill them."""
    rows = [[]]
    for length in lengths:
        if sum(rows[-1]) + length > SEQ_LEN:
            rows.append([])
        rows[-1].append(int(length))
    return rows


def own(lengths):
    """Returns, by step and rank, rows of torchtitan's own datasets, each of which reads a part of the samples."""
    of_ranks = [next_fit(lengths[rank::RANKS]) for rank in range(RANKS)]
    return [[[row] for row in step] for step in zip(*of_ranks)]


def balanced(lengths, rows, **settings):
    """Returns, by step and rank, rows as BalancedDataLoader fills them."""
    steps, first = [], 0
    while first < len(lengths):
        left = lengths[first:]
        count = int(np.searchsorted(np.cumsum(left), RANKS * rows * SEQ_LEN, side="right"))
        while (planned := plan_rows(left[:count], RANKS, SEQ_LEN, settings, min_count=rows)).num_micro_batches > rows:
            count -= 1
        steps.append([[left[row.samples].tolist() for row in rank.micro_batches] for rank in planned.ranks])
        first += count
    return steps[:-1]


def measure(steps):
    rows = [row for step in steps for rank in step for row in rank]
    # Padding is a sequence of its own, whose rows are also computed.
    time_of = [[[work([*row, SEQ_LEN - sum(row)]) for row in rank] for rank in step] for step in steps]
    time = sum(max(column) for step in time_of for column in zip(*step))
    bound = sum(map(work, rows)) / RANKS
    return 1 - sum(map(sum, rows)) / len(rows) / SEQ_LEN, time / bound


if __name__ == "__main__":
    lengths = np.random.RandomState(1).lognormal(7.5, 1, size=8192).astype(int).clip(2, SEQ_LEN)
    ways = {"torchtitan's own": own(lengths)}
    for rows in (1, 2, 4):
        ways[f"Evenkeel, {rows} rows per rank and step"] = balanced(lengths, rows, balance={"cost": "flops-7b"})
    for name, steps in ways.items():
        padding, time = measure(steps)
        print(f"| {name} | {100 * padding:.1f} | {time:.3f} |")
