"""Positions with three axes are cut with their tokens and collected again. They are supplied axes first, as image models
compute them."""

import json
import sys

import numpy as np

import evenkeel
from jobs import group, report_result

service = evenkeel.DataService(group(), evenkeel.Config.parse(sys.argv[1]), tensors="numpy")
prompts, responses = [6, 6, 3], [5, 2, 9]


def positions_of(sample):
    """Returns [3, tokens]: time, height and width. Samples with the same prompt have equal positions in it."""
    t = np.arange(prompts[sample] + responses[sample])
    return np.stack([t, t // 2, t % 3])


def tokens_of(sample):
    prompt = 1 + np.arange(prompts[sample]) + 100 * (sample // 2)  # 0 is the pad token
    return np.concatenate([prompt, 1000 * (sample + 1) + np.arange(responses[sample])])


mine = [0, 1, 2] if service.rank == 0 else []
samples = evenkeel.Samples(
    ids=mine, groups=[i // 2 for i in mine],
    prompt_lengths=[prompts[i] for i in mine], response_lengths=[responses[i] for i in mine],
    token={"input_ids": np.concatenate([np.empty(0, np.int64), *map(tokens_of, mine)])},
    axes={"position_ids": [positions_of(i) for i in mine] or np.empty((3, 0), np.int64)},
)
by_token = {int(token): tuple(positions_of(i)[:, t]) for i in range(3) for t, token in enumerate(tokens_of(i))}

step = service.step(samples)
beside = rows = 0
for micro_batch in step.micro_batches:
    positions = micro_batch.axes_first("position_ids")
    tokens = micro_batch["input_ids"]
    positions_are_views = np.shares_memory(positions, micro_batch["position_ids"])
    assert positions_are_views and positions.shape == (3, len(tokens))
    beside += sum(tuple(positions[:, row]) == by_token.get(int(tokens[row])) for row in tokens.nonzero()[0])
    rows += np.count_nonzero(tokens)
    if "prediction_rows" not in micro_batch.tensors:
        micro_batch.put("seen", np.ascontiguousarray(positions.T), kind="token")

collected = None
if not json.loads(sys.argv[1]).get("prefix"):
    collected = all(np.array_equal(got.T, positions_of(i)) for i, got in zip(mine, service.collect(step).rows_of("seen")))
refused = []
for wrong in (np.zeros(3, np.int64), [np.zeros((1, 2, 3))]):
    try:
        len(evenkeel.Samples(ids=[0], prompt_lengths=[1], response_lengths=[2], axes={"position_ids": wrong}))
    except evenkeel.InputError as error:
        refused.append(str(error))
report_result(service.rank, beside=beside, rows=rows, collected=collected, refused=refused)
