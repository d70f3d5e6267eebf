"""Checks how the micro-batch of two samples with a common prompt, on one rank, represents what they share."""

import sys

import numpy as np

import evenkeel
import evenkeel.megatron
from jobs import group, report_result

config, = sys.argv[1:]
service = evenkeel.DataService(group(), evenkeel.Config.parse(config), tensors="numpy")


def refusal_of(act):
    try:
        act()
    except evenkeel.Error as error:
        return str(error)
    return "nothing"


samples = [[1, 2, 3], [1, 2, 4]] if service.rank == 0 else []
step = service.step(evenkeel.Samples(
    ids=list(range(len(samples))), groups=[0] * len(samples), prompt_lengths=[2] * len(samples),
    response_lengths=[1] * len(samples), token={"input_ids": np.array(samples, np.int64).reshape(-1)},
))
(micro_batch,) = step.micro_batches
cp_rank = service.mesh["cp"][0]
offsets = micro_batch.prediction_offsets
report_result(
    service.rank,
    segments=micro_batch.tree.tree.lengths.tolist(),
    positions=np.array_equal(micro_batch.tree.position_ids(cp_rank=cp_rank), micro_batch["position_ids"]),
    refused=[refusal_of(act) for act in (
        micro_batch.flash_attn_varlen_kwargs, micro_batch.packed_seq_params, lambda: micro_batch.nested("input_ids"),
        lambda: evenkeel.megatron.DataIterator(service, None))],
    offsets=len(offsets) == 3 and int(offsets[0]) == 0 and int(offsets[-1]) == len(micro_batch["prediction_rows"]),
)
