"""Errors of one rank, as every rank gets them."""

from jobs import group, tell

import evenkeel

over = group()
service = evenkeel.DataService(over, {"micro_batch": {"max_tokens": 64}})
told = {}


def sample(i, length=3):
    import numpy as np

    return evenkeel.Samples(ids=[i], prompt_lengths=[1], response_lengths=[length - 1],
                            token={"input_ids": np.arange(length)})


def error_of(name, act):
    try:
        act()
        told[name] = "nothing was raised"
    except evenkeel.Error as error:
        told[name] = [type(error).__name__, str(error), error.rank]


def fail():
    if service.rank == service.size - 1:
        raise ValueError("no samples today")
    return sample(service.rank)


def fail_as_ours():
    if service.rank == 0:
        raise evenkeel.LimitError("x", "here", "is too much", "Take less")
    return sample(service.rank)


error_of("python", lambda: service.step(fail))
error_of("ours", lambda: service.step(fail_as_ours))
error_of("long", lambda: service.step(sample(service.rank, 99 if service.rank == 0 else 3)))
step = service.step(sample(service.rank))
error_of("nothing put", lambda: [part.put("odd", part["input_ids"][:-1], kind="token") for part in step.micro_batches]
         and service.collect(step))
error_of("configurations", lambda: evenkeel.DataService(over, {"pack": {"pad_token": service.rank + 1}})
         if service.size > 1 else service.step(fail))
again = service.step(sample(service.rank))
tell(service.rank, told=told, works=again.num_samples == service.size)
