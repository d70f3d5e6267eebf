"""Tests errors of one rank, which all ranks must raise."""

import numpy as np

import evenkeel
import evenkeel.padded
from jobs import group, report_result

over = group()
service = evenkeel.DataService(over, {"micro_batch": {"max_tokens": 64}})
results = {}


def sample(i, length=3):
    return evenkeel.Samples(ids=[i], prompt_lengths=[1], response_lengths=[length - 1],
                            token={"input_ids": np.arange(length)})


def error_of(name, act):
    try:
        act()
        results[name] = "nothing was raised"
    except evenkeel.Error as error:
        results[name] = [type(error).__name__, str(error), error.rank]


def fail():
    if service.rank == service.size - 1:
        raise ValueError("no samples today")
    return sample(service.rank)


def fail_with_limit_error():
    if service.rank == 0:
        raise evenkeel.LimitError("x", "here", "is too much", "Take less")
    return sample(service.rank)


error_of("python", lambda: service.step(fail))
error_of("ours", lambda: service.step(fail_with_limit_error))
error_of("long", lambda: service.step(sample(service.rank, 99 if service.rank == 0 else 3)))
step = service.step(sample(service.rank))
error_of("nothing put", lambda: [part.put("odd", part["input_ids"][:-1], kind="token") for part in step.micro_batches]
         and service.collect(step))


class SlimeSample:
    """The attributes that the line recommended in docs/python.md uses."""

    index, group_index, tokens, response_length, loss_mask = 5, 0, [1, 2, 3], 2, [0, 1]


own = [SlimeSample] if service.rank == service.size - 1 else []
step = service.step(evenkeel.Samples(
    ids=[s.index for s in own], groups=[s.group_index for s in own],
    prompt_lengths=[len(s.tokens) - s.response_length for s in own], response_lengths=[s.response_length for s in own],
    token={"input_ids": [s.tokens for s in own]}, response_token={"loss_mask": [s.loss_mask for s in own]},
    rows={"patches": [[[0.5, 1]] for _ in own]}, axes={"position_ids": [np.arange(3)[None] for _ in own]}))
results["without samples"] = step.num_samples


def wrong_on_one(**fields):
    """Makes samples that cannot be built on one rank."""
    first = {**fields, "input_ids": [1, 2, 3]}
    return evenkeel.Samples(ids=[service.rank], prompt_lengths=[1], response_lengths=[2],
                            token=first if service.rank == service.size - 1 else {"input_ids": [1, 2, 3]})


error_of("built wrongly", lambda: service.step(wrong_on_one(odd=[1, 2])))
error_of("of a wrong type", lambda: service.step(wrong_on_one(odd=object())))
wrong = wrong_on_one(odd=[1, 2])
if service.rank == service.size - 1:
    for read in (len, repr, lambda s: s.ids, lambda s: s["input_ids"], lambda s: s.kinds(), lambda s: s.prompt_lengths):
        try:
            read(wrong)
            results["read"] = f"{read} read them"
        except evenkeel.InputError:
            pass
padded = np.array([[0, 1, 1, 1]])
error_of("padded wrongly", lambda: service.step(evenkeel.padded.samples_of(
    {"attention_mask": padded, "input_ids": padded, "response_mask": padded[:, 2:], "odd": np.zeros(1 + service.rank)},
    first_id=service.rank)))
added = evenkeel.Samples(ids=[service.rank], prompt_lengths=[1], response_lengths=[2],
                         token={"odd": [1, 2] if service.rank == service.size - 1 else [1, 2, 3]})
error_of("added wrongly", lambda: service.step_again(service.step(sample(service.rank)), "", added))
step = service.step(sample(service.rank))
for part in step:
    part.put("values", {1, 2} if service.rank == service.size - 1 else part["input_ids"], kind="token")
error_of("put wrongly", lambda: service.collect(step))
error_of("configurations", lambda: evenkeel.DataService(over, {"pack": {"pad_token": service.rank + 1}})
         if service.size > 1 else service.step(fail))
is_wrong = service.rank == service.size - 1
error_of("configuration of one", lambda: evenkeel.DataService(over, {"nonsense": 1} if is_wrong else {}))
state = service.state_dict()
error_of("state of one", lambda: service.load_state_dict({"evenkeel": "nonsense"} if is_wrong else state))
again = service.step(sample(service.rank))
report_result(service.rank, results=results, works=again.num_samples == service.size)
