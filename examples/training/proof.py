"""Trains the same model twice, plainly and over Evenkeel, and compares losses and gradients of every step.

    mpirun -n 4 python3 examples/training/proof.py --cp 2
    mpirun -n 4 python3 examples/training/proof.py --cp flexible
    mpirun -n 4 python3 examples/training/proof.py --aggregation prompt-mean --share tree --dtype float32

Under the variables of torchrun (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT) it works over torch.distributed instead."""

import argparse
import functools
import json

import torch
from made_up import samples_of
from model import SmallGpt
from plain import PlainTrainer
from ranks import Ranks

from trainer import Trainer

AGGREGATIONS = ("token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm",
                "prompt-mean", "mindspeed-rl")


def ranks_of_context(text):
    return text if text == "flexible" else int(text)


def cap_of(cp, tokens):
    """The key of the cap, which counts tokens per rank if groups differ between micro-batches."""
    return {"max_tokens_per_rank" if cp == "flexible" else "max_tokens": tokens}


def config_of(*, cp=1, share=False, aggregation="token-mean", max_tokens=512, micro_batches="sum", dp_ranks="mean",
              fully_masked="count", mode="packed", max_cp="auto"):
    return {
        "mesh": {"cp": cp, "max_cp": max_cp},
        "micro_batch": {**cap_of(cp, max_tokens), "mode": mode, "size": 4},
        "prefix": {"share": share},
        "balance": {"cost": {"linear": 160, "quadratic": 1}, "meet": "step"},
        "loss": {"aggregation": aggregation, "micro_batches": micro_batches, "dp_ranks": dp_ranks,
                 "fully_masked": fully_masked, "norm_length": 64},
    }


def model_of(dtype):
    torch.manual_seed(1)
    return SmallGpt().to(getattr(torch, dtype))


def prove(ranks, steps, dtype="float64", samples=samples_of, **settings):
    """One line per step: both losses, their difference, and that of the gradients. Only rank 0 trains plainly; other
    ranks get None."""
    torch.set_num_threads(1)
    model = model_of(dtype)
    config = config_of(**settings)
    ours = Trainer(ranks, model, config)
    loss = config["loss"]
    plain = PlainTrainer(model, {name: loss[name] for name in ("aggregation", "fully_masked", "norm_length")})
    lines = []
    for number in range(steps):
        of_step = samples(number)
        step, got, gradient = ours.step(of_step)
        split = ours.split_of(step)
        if ranks.rank == 0:
            expected, its_gradient = plain.step(of_step, split)
            lines.append({
                "plain": expected, "evenkeel": got, "loss": abs(got - expected) / abs(expected),
                "gradient": ((gradient - its_gradient).abs().max() / its_gradient.abs().max()).item(),
                "micro_batches": [len(each) for each in split], "samples": [sum(map(len, each)) for each in split],
            })
    return lines if ranks.rank == 0 else None


def tell(lines):
    for number, line in enumerate(lines):
        if number % 10 == 0 or number + 1 == len(lines):
            print(f"step {number:2}  plain {line['plain']:.12f}  evenkeel {line['evenkeel']:.12f}  "
                  f"micro-batches {line['micro_batches']}")
    print(f"largest distance of {len(lines)} steps: loss {max(line['loss'] for line in lines):.1e}, "
          f"gradient {max(line['gradient'] for line in lines):.1e}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--cp", type=ranks_of_context, default=1, help="a number, or flexible")
    parser.add_argument("--share", choices=["false", "true", "tree"], default="false")
    parser.add_argument("--aggregation", choices=[*AGGREGATIONS, "all"], default="token-mean")
    parser.add_argument("--dtype", choices=["float64", "float32"], default="float64")
    parser.add_argument("--groups", type=int, default=6, help="prompts of a step, each with 2 to 4 responses")
    parser.add_argument("--out", help="a file for the curves, as JSON")
    options = vars(parser.parse_args())
    out, chosen = options.pop("out"), options.pop("aggregation")
    options["samples"] = functools.partial(samples_of, groups=options.pop("groups"))
    ranks = Ranks.of_job()
    curves = {}
    for aggregation in AGGREGATIONS if chosen == "all" else [chosen]:
        curves[aggregation] = prove(ranks, aggregation=aggregation, **options)
        if ranks.rank == 0:
            print(aggregation)
            tell(curves[aggregation])
    if out and ranks.rank == 0:
        with open(out, "w", encoding="utf-8") as file:
            json.dump({"dtype": options["dtype"], "ranks": ranks.size, "curves": curves}, file)


if __name__ == "__main__":
    main()
