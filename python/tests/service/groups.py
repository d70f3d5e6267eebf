"""Prints the groups that may run micro-batches together."""

import sys

import evenkeel
from jobs import group, report_result

config, = sys.argv[1:]
service = evenkeel.DataService(group(), evenkeel.Config.parse(config), tensors="numpy")
report_result(service.rank, groups=service.context_groups())
