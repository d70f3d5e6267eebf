"""Iterates over a configured source, stops in the middle, and resumes from the state in another service."""

import hashlib
import sys

import numpy as np

import evenkeel
from jobs import group, report_result

config = evenkeel.Config.parse(sys.argv[1])
over = group()


def digest_of(step):
    digest = hashlib.sha256(str(step.index).encode())
    for micro_batch in step.micro_batches:
        digest.update(np.ascontiguousarray(micro_batch["input_ids"]).tobytes())
    return digest.hexdigest()


service = evenkeel.DataService(over, config)
whole = [digest_of(step) for step in service]
first = evenkeel.DataService(over, config)
parts = []
for step in first:
    parts.append(digest_of(step))
    if step.index == 2:
        break
state = first.state_dict()
second = evenkeel.DataService(over, config)
second.load_state_dict(state)
parts += [digest_of(step) for step in second]
report_result(service.rank, steps=len(service), equal=whole == parts, state=state["evenkeel"], bytes=len(state["evenkeel"]),
     kind=type(next(iter(evenkeel.DataService(over, config))).micro_batches[0]["input_ids"]).__module__)
