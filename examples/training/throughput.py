"""Tokens per second of the model on long-tailed lengths: padded batches, fixed micro-batches, and Evenkeel.

    mpirun -n 2 python3 examples/training/throughput.py --out speed.json

All three train the same model on the same samples, alternating step by step, so that other work on the machine affects
all of them equally. Nothing is compared here: proof.py does that. Times are those of whole updates, the slowest rank's.
"""

import argparse
import copy
import json
import time

import torch
from made_up import samples_of
from model import SmallGpt
from plain import PaddedBatch, aggregate, gradient_of, set_gradients
from ranks import Ranks

from trainer import Trainer

CAP = 2048
SIZE = 4  # samples per padded or fixed micro-batch


def config_of(**micro_batch):
    return {"mesh": {"cp": 1}, "micro_batch": {"max_tokens": CAP, **micro_batch},
            "balance": {"cost": {"linear": 160, "quadratic": 1}}}


class PaddedTrainer:
    """Each rank takes its run of the samples, SIZE at a time, padded to the longest one."""

    def __init__(self, ranks, model):
        self.ranks, self.model = ranks, model
        self.optimizer = torch.optim.Adam(model.parameters(), 3e-3)

    def step(self, samples):
        self.optimizer.zero_grad(set_to_none=False)
        tokens = sum(len(s.response) for s in samples)
        per_rank = -(-len(samples) // self.ranks.size)
        mine = samples[self.ranks.rank * per_rank : (self.ranks.rank + 1) * per_rank]
        for begin in range(0, len(mine), SIZE):
            batch = PaddedBatch(mine[begin : begin + SIZE])
            loss = aggregate(-batch.log_probs(self.model), batch, "token-sum") / tokens
            loss.backward()
        set_gradients(self.model, self.ranks.sum_(gradient_of(self.model)))
        self.optimizer.step()


def rows_of(samples, ranks):
    """The rows that a padded trainer computes on all ranks together, and the number of tokens."""
    per_rank = -(-len(samples) // ranks)
    rows = 0
    for rank in range(ranks):
        mine = samples[rank * per_rank : (rank + 1) * per_rank]
        for begin in range(0, len(mine), SIZE):
            part = mine[begin : begin + SIZE]
            rows += len(part) * max(len(s) for s in part)
    return rows, sum(len(s) for s in samples)


def measure(ranks, steps, groups):
    torch.manual_seed(1)
    model = SmallGpt()
    trainers = {
        "padded batches": PaddedTrainer(ranks, copy.deepcopy(model)),
        "fixed micro-batches": Trainer(ranks, model, {**config_of(mode="fixed", size=SIZE),
                                                      "balance": {"algorithm": "none", "refine": False}}),
        "Evenkeel": Trainer(ranks, model, config_of()),
    }
    seconds = {name: [] for name in trainers}
    padded = tokens = 0
    for number in range(steps + 1):
        samples = samples_of(number, groups=groups, responses=4, typical=100, sigma=1.1, longest=CAP * 2 // 3, seed=7)
        rows, true = rows_of(samples, ranks.size)
        for name, trainer in trainers.items():
            ranks.gather_objects(None)
            begin = time.perf_counter()
            trainer.step(samples)
            took = max(ranks.gather_objects(time.perf_counter() - begin))
            if number:  # the first one is for warm-up
                seconds[name].append(took)
        if number:
            padded, tokens = padded + rows, tokens + true
    return {"ranks": ranks.size, "steps": steps, "tokens": tokens, "padded_rows": padded, "seconds": seconds}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--groups", type=int, default=16)
    parser.add_argument("--out", help="a file for the numbers, as JSON")
    options = parser.parse_args()
    torch.set_num_threads(1)
    ranks = Ranks.of_job()
    told = measure(ranks, options.steps, options.groups)
    if ranks.rank != 0:
        return
    print(f"{told['tokens']:,} tokens in {told['steps']} steps on {told['ranks']} ranks, "
          f"{told['padded_rows']:,} rows when padded")
    for name, seconds in told["seconds"].items():
        print(f"{name:20} {told['tokens'] / sum(seconds):9,.0f} tokens/s")
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump(told, file)


if __name__ == "__main__":
    main()
