"""Prints the groups that may run micro-batches together."""

import sys

from jobs import group, tell

import evenkeel

config, = sys.argv[1:]
service = evenkeel.DataService(group(), evenkeel.Config.parse(config), tensors="numpy")
tell(service.rank, groups=service.context_groups())
