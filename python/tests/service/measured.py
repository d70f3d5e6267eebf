"""Checks that times reported during iteration reach the planner: the first passes are made ahead, later ones are not."""

import json
import sys

import evenkeel
from jobs import group, report_result

over = group()
measured = {"balance": {"cost": "measured"}, "micro_batch": {"max_tokens": 16384}}
config = {
    "source": {"kind": "synthetic", "samples": 240, "seed": 3},
    "batch": {"global_batch": 8},
    "exchange": {"prefetch": int(sys.argv[1])},
    **measured,
    "profiles": {"update": {"micro_batch": {"max_tokens": 8192}}},
}


def report(step, seconds_a_token):
    for number, part in enumerate(step):
        lengths = part.prompt_lengths + part.response_lengths
        service.report_time(step, number, 1e-3 + seconds_a_token * int(lengths.sum()) + 1e-9 * int((lengths**2).sum()))


def costs():
    return {name: cost["linear"] for name, cost in json.loads(service.state_dict()["evenkeel"])["costs"].items()}


service = evenkeel.DataService(over, config)
results = []
for step in service:
    report(step, 1e-6)
    report(service.step_again(step, "update"), 2e-6)
    results.append(costs())
left = costs()
state = service.state_dict()
service = evenkeel.DataService(over, config)
service.load_state_dict(state)
report_result(service.rank, results=results, left=left, resumed=costs())
