"""Leaves an iterator open at exit, as Megatron's training loop does: open_iterator.py END PREFETCH. END is `end`; `raise`: only
rank 1 ends with an exception; or `error`: a step raises an error on all ranks."""

import sys

import evenkeel
from jobs import group, report_result

over = group()
service = evenkeel.DataService(over, {
    "source": {"kind": "synthetic", "samples": 400, "seed": 3},
    "batch": {"global_batch": 20},
    "exchange": {"prefetch": int(sys.argv[2])},
})
if sys.argv[1] == "error":
    service = evenkeel.DataService(over, evenkeel.Config(service.config, micro_batch={"max_tokens": 8}))
steps = iter(service)  # a global, which lives until Python exits
first, second = next(steps), next(steps)
report_result(service.rank, indices=[first.index, second.index])
if sys.argv[1] == "raise" and service.rank == 1:
    raise RuntimeError("this rank alone")
