"""Trains every given case on these ranks, with Evenkeel and without; rank 0 prints the differences.

    cases.py EXAMPLES '{"sft": {NAME: SETTINGS}, "grpo": {NAME: SETTINGS}, "branching": {NAME: SETTINGS}, "ahead": {...}}'"""

import functools
import json
import sys

sys.path.insert(0, sys.argv[1])

import branching
import proof
from made_up import samples_of
from ranks import Ranks

import ahead
import grpo

few = functools.partial(samples_of, responses=4, typical=18, longest=60)
ranks = Ranks.of_job()
results = {}
for kind, prove in (("sft", proof.prove), ("grpo", grpo.prove)):
    for name, settings in json.loads(sys.argv[2]).get(kind, {}).items():
        samples = functools.partial(few, groups=settings.pop("groups", 4))
        results[f"{kind} {name}"] = prove(ranks, settings.pop("steps"), samples=samples, **settings)
for name, settings in json.loads(sys.argv[2]).get("branching", {}).items():
    results[f"branching {name}"] = list(branching.prove(ranks, **settings))
for name, settings in json.loads(sys.argv[2]).get("ahead", {}).items():
    results[f"ahead {name}"] = ahead.prove(ranks, **settings)
if ranks.rank == 0:
    print(json.dumps(results), flush=True)
