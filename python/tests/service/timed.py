"""Writes lengths and times of micro-batches as docs/micro-batches.md shows. The times follow a known cost."""

import sys

import evenkeel
from jobs import group, report_result

service = evenkeel.DataService(group(), {
    "source": {"kind": "synthetic", "samples": 240, "seed": 3},
    "batch": {"global_batch": 24},
    "micro_batch": {"max_tokens": 16384},
})
with open(f"{sys.argv[1]}/times-{service.rank}.csv", "w") as times:
    print("lengths,seconds", file=times)
    for step in service:
        for micro_batch in step.micro_batches:
            lengths = (micro_batch.prompt_lengths + micro_batch.response_lengths).tolist()
            seconds = 0.01 + 3e-6 * sum(lengths) + 1e-9 * sum(length**2 for length in lengths)
            print(*lengths, end=f",{seconds}\n", file=times)
report_result(service.rank)
