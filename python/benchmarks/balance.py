#!/usr/bin/env python3
"""Measures Karmarkar-Karp from Python, including conversion, and compares it with the method in plain Python on the same costs."""

import argparse
import statistics
import time

import numpy as np

import evenkeel
from plain_karmarkar_karp import karmarkar_karp as plain


def seconds_of(call, rounds):
    """Returns the median, after a warm-up round."""
    call()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=8192)
    parser.add_argument("--groups", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=101, help="of the C++ one")
    parser.add_argument("--plain-rounds", type=int, default=3)
    arguments = parser.parse_args()
    random = np.random.default_rng(1)
    array = np.clip(random.lognormal(7.5, 1.0, size=arguments.items), 1, 8192).astype(np.int64)
    costs, k = array.tolist(), arguments.groups

    print(f"{arguments.items} items, {k} groups")
    print(f"{'groups':<8}{'from':<10}{'ms':>10}{'plain Python, ms':>20}{'times faster':>15}")
    for equal in (False, True):
        assert evenkeel.karmarkar_karp(costs, k, equal_count=equal).to_lists() == plain(costs, k, equal)
        slow = seconds_of(lambda: plain(costs, k, equal), arguments.plain_rounds)
        for name, values in (("list", costs), ("array", array)):
            fast = seconds_of(lambda: evenkeel.karmarkar_karp(values, k, equal_count=equal).to_lists(), arguments.rounds)
            print(f"{'equal' if equal else 'free':<8}{name:<10}{1000 * fast:>10.3f}{1000 * slow:>20.1f}{slow / fast:>15.0f}")


if __name__ == "__main__":
    main()
