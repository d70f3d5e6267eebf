"""Runs several services at once in one torch job, each over its own group: subgroups.py '[{"ranks": ..., "config": ...}, ...]'
"""

import functools
import json
import sys

import torch.distributed as distributed

import evenkeel
from jobs import group, report_result
from trainer import model_of, optimizer_of, train

group()
parts = json.loads(sys.argv[1])
groups = [distributed.new_group(part["ranks"]) for part in parts]  # torch requires that all processes create all groups
rank = distributed.get_rank()
mine, others = sorted(range(len(parts)), key=lambda i: rank not in parts[i]["ranks"])
try:
    evenkeel.DataService(groups[others], {})
except evenkeel.InputError as error:
    refused = str(error)
service = evenkeel.DataService(groups[mine], evenkeel.Config(parts[mine]["config"]))
model = model_of()
losses, samples = train(service, functools.partial(distributed.all_reduce, group=groups[mine]), model, optimizer_of(model), 0)
report_result(rank, place=service.rank, size=service.size, losses=losses, samples=samples, refused=refused)
