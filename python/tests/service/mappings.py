"""Samples, steps and micro-batches as Python objects: mappings of fields, iteration and repr."""

import numpy as np

import evenkeel
from jobs import group, report_result

over = group()
service = evenkeel.DataService(over, {"micro_batch": {"max_tokens": 64}})
results = {}


def error_of(act):
    try:
        act()
    except Exception as error:
        return [type(error).__name__, str(error), isinstance(error, KeyError), isinstance(error, evenkeel.InputError)]
    return "nothing was raised"


def samples(**fields):
    return evenkeel.Samples(ids=[2 * service.rank, 2 * service.rank + 1], prompt_lengths=[1, 2], response_lengths=[2, 1],
                            **fields)


mine = samples(token={"input_ids": [[1, 2, 3], [4, 5, 6]], "pairs": [[[1, 2]] * 3, [[3, 4]] * 3]},
               response_token={"log_probs": [[-0.5, -1], [0]]}, sample={"reward": [1, 0.5], "done": [True, False]})
results["types"] = {name: [str(mine[name].dtype), np.asarray(mine[name]).tolist()] for name in mine}
results["shown"] = repr(mine)
results["mapping"] = ["reward" in mine, "x" in mine, list(mine.keys()) == list(mine), mine.get("x"), mine.get("x", 3)]
results["missing"] = error_of(lambda: mine["x"])
results["mixed"] = error_of(lambda: len(samples(sample={"done": [True, 2]})))
results["mixed in samples"] = error_of(lambda: len(samples(token={"input_ids": [[1, 2, 3], [True, True, False]]})))
results["text"] = error_of(lambda: len(samples(token={"input_ids": [["a", "b", "c"], [1, 2, 3]]})))
results["rounded"] = [error_of(lambda values=values: len(samples(**values))) for values in (
    {"sample": {"ts": [1763800000123, 0.5]}}, {"sample": {"ts": [[16777217, 1], [0.5, 1.5]]}},
    {"token": {"ts": [[1763800000123, 1, 2, 3], [0.5, 1.5]]}})]
results["exact"] = samples(sample={"ts": [16777216, 0.5]})["ts"].tolist()
results["too large"] = error_of(lambda: len(samples(sample={"reward": [1e300, 0.5]})))
results["whole"] = error_of(lambda: len(samples(sample={"reward": [2**70, 1]})))
results["none"] = error_of(lambda: len(samples(sample={"reward": []})))
results["shapes"] = error_of(lambda: len(samples(token={"input_ids": [[[1], [2], [3]], [[1, 2]] * 3]})))

step = service.step(mine)
results["step"] = [len(step) == len(step.micro_batches), [part for part in step] == step.micro_batches, repr(step)]
part = step.micro_batches[0]
results["part"] = ["input_ids" in part, "x" in part, sorted(part), repr(part)]
results["missing of part"] = error_of(lambda: part["x"])
results["offsets"] = [np.asarray(part["cu_seqlens"]).tolist() == np.asarray(part.cu_seqlens).tolist(), part["max_seqlen"] == part.max_seqlen]

sources = {"source": {"kind": "synthetic", "samples": 40}, "batch": {"global_batch": 20}}
epochs = evenkeel.DataService(over, sources)
results["first epoch"] = [len([step for step in epochs]), len(epochs)]
results["second epoch"] = error_of(lambda: [step for step in epochs])
two = evenkeel.DataService(over, sources)
one = iter(two)
other = iter(two)
indices = [next(one).index]
results["other"] = error_of(lambda: next(other))
results["third"] = error_of(lambda: iter(two))
indices += [step.index for step in one]
results["indices"] = indices
left = evenkeel.DataService(over, sources)
for first in left:
    break
results["continued"] = [first.index] + [step.index for step in left]
finished = evenkeel.DataService(over, sources)
finished.load_state_dict(left.state_dict())
results["finished"] = [step.index for step in finished]


class ProgramError(Exception):
    pass


def fail():
    if service.rank == 0:
        raise ProgramError("no samples\ntoday")
    return mine


try:
    service.step(fail)
except evenkeel.InputError as error:
    results["cause"] = [str(error), type(error.__cause__).__name__]
scaled = evenkeel.DataService(over, {"mesh": {"tp": 1}, "loss": {"dp_ranks": "mean"}})
whole = scaled.step(mine)
n = len(whole)
results["scales"] = [
    scaled.gradient_scale(whole) == service.size,
    scaled.gradient_scale(whole, dp_ranks="sum") == 1,
    scaled.gradient_scale(whole, over="all") == service.size,
    scaled.gradient_scale(whole, micro_batches="mean") == service.size * n,
]
results["wrong"] = [error_of(lambda: scaled.gradient_scale(whole, over="dp")), error_of(lambda: scaled.gradient_scale(whole, dp_ranks="max")),
                    error_of(lambda: scaled.gradient_scale(whole, micro_batches="mean", mini_batch=9))]
report_result(service.rank, results=results)
