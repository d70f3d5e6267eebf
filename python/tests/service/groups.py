"""The groups that may run micro-batches together, or which key says that they cannot be listed."""

import sys

from jobs import group, tell

import evenkeel

config, = sys.argv[1:]
service = evenkeel.DataService(group(), evenkeel.Config.parse(config), tensors="numpy")
try:
    groups = service.context_groups()
except evenkeel.ConfigError as error:
    groups = error.where
tell(service.rank, groups=groups)
