#!/usr/bin/env python3
"""drop_in.py [--calls N] [--threads N]: compares the drop-in functions with plain implementations in Python and torch.

Prints medians over alternating calls of both, and checks that both return the same."""

import argparse
import random
import statistics
import time

import torch

from evenkeel.drop_in import verl
from plain_karmarkar_karp import karmarkar_karp as plain_karmarkar_karp


def plain_rearrange_micro_batches(batch, max_token_len):
    lengths = batch["attention_mask"].sum(dim=1)
    count = min(len(lengths), -(-int(lengths.sum()) // max_token_len))
    work = (24576 * lengths + lengths * lengths).tolist()
    parts = [sorted(part) for part in plain_karmarkar_karp(work, count)]
    parts.sort(key=lambda part: (sum(work[i] for i in part), part[0]), reverse=True)
    parts = parts[::2][::-1] + parts[1::2]
    micro_batches = [{key: values[torch.tensor(part)] for key, values in batch.items()} for part in parts]
    return micro_batches, parts


def lengths_up_to(most, samples):
    drawn = random.Random(7)
    return [drawn.randint(1, most) for _ in range(samples)]


def measure(calls, own, plain):
    """Returns median seconds of a call of both, alternating, and the results of each."""
    seconds = {own: [], plain: []}
    results = {}
    for _ in range(calls):
        for compute in (own, plain):
            results.pop(compute, None)  # freed outside the measured time
            begin = time.perf_counter()
            results[compute] = compute()
            seconds[compute].append(time.perf_counter() - begin)
    return statistics.median(seconds[own]), statistics.median(seconds[plain]), results[own], results[plain]


def report(what, own, plain):
    print(f"| {what} | {plain * 1e3:.0f} ms | {own * 1e3:.2f} ms | {plain / own:.1f} x |", flush=True)


def karmarkar_karp(arguments):
    lengths = lengths_up_to(8192, 8192)
    own, plain, partitions, expected = measure(
        arguments.calls, lambda: verl.karmarkar_karp(lengths, 256, False), lambda: plain_karmarkar_karp(lengths, 256))
    assert partitions == expected
    report("`karmarkar_karp`, 8192 lengths into 256 groups, lists in and out", own, plain)


def rearrange_micro_batches(arguments, columns, mask_dtype, strict=False, max_token_len=16384):
    lengths = torch.tensor(lengths_up_to(8192, 512))
    batch = {f"column {i}": torch.randint(0, 1000, (512, 8192)) for i in range(columns - 1)}
    batch["attention_mask"] = (torch.arange(8192) < lengths[:, None]).to(mask_dtype)
    own, plain, (micro_batches, partitions), (expected, parts) = measure(
        arguments.calls, lambda: verl.rearrange_micro_batches(batch, max_token_len, strict_reference=strict),
        lambda: plain_rearrange_micro_batches(batch, max_token_len))
    if strict:
        assert partitions == parts
        assert all(torch.equal(mine[key], other[key]) for mine, other in zip(micro_batches, expected) for key in batch)
    kind = "strict" if strict else "the cap kept"
    report(f"`rearrange_micro_batches`, {columns} columns, mask {str(mask_dtype)[6:]}, {len(partitions)} micro-batches, {kind}",
           own, plain)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=11)
    parser.add_argument("--threads", type=int, default=1, help="of torch and of Evenkeel")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads; batches of 512 samples, 8192 columns\n")
    print("| | plain | Evenkeel | |\n|---|---:|---:|---:|")
    for strict in (True, False):
        rearrange_micro_batches(arguments, 2, torch.long, strict)
    rearrange_micro_batches(arguments, 2, torch.bool)
    rearrange_micro_batches(arguments, 4, torch.long)
    karmarkar_karp(arguments)


main()
