"""Converts padded batches of verl and ROLL, makes Megatron's iterator, and expands advantages to rows."""

import sys

import torch

import evenkeel
import evenkeel.megatron
import evenkeel.padded
from jobs import group, report_result

over = group()
config = evenkeel.Config.parse(sys.argv[1])
service = evenkeel.DataService(over, config, tensors="torch")
results = {}


class DataProto:
    """The attributes that adapters use."""

    def __init__(self, batch, non_tensor_batch, meta_info):
        self.batch, self.non_tensor_batch, self.meta_info = batch, non_tensor_batch, meta_info


def batch_of(rank):
    """Returns six samples: prompts padded on the left to 5, responses of two turns padded on the right to 7."""
    generator = torch.Generator().manual_seed(rank)
    prompts, responses = [torch.randint(1, most + 1, (6,), generator=generator) for most in (5, 7)]
    at = torch.arange(12)
    mask = (at >= 5 - prompts[:, None]) & (at < 5 + responses[:, None])
    ids = torch.randint(1, 1000, (6, 12), generator=generator) * mask
    response_mask = (mask[:, 5:] & (torch.arange(7) % 3 != 2)).long()  # every third token comes from a tool
    return DataProto(
        {"input_ids": ids, "attention_mask": mask.long(), "responses": ids[:, 5:], "response_mask": response_mask,
         "old_log_probs": torch.randn(6, 7, generator=generator) * mask[:, 5:], "score": torch.arange(6.0) + 10 * rank},
        {"uid": [f"prompt {i // 2} of {rank}" for i in range(6)], "source": ["math", "code"] * 3}, {})


import numpy as np

place = {axis: at for axis, (at, _) in service.mesh.items()}
sizes = {axis: size for axis, (_, size) in service.mesh.items()}
owner = place["tp"] == place["cp"] == place["pp"] == 0
batch = batch_of(service.rank)
batch.non_tensor_batch = {name: np.array(values, object) for name, values in batch.non_tensor_batch.items()}
mine = evenkeel.padded.samples_of(batch, first_id=6 * service.rank)
results["fields"] = sorted(mine.kinds().items())
results["groups"] = mine.groups.tolist()
results["tokens"] = [rows.tolist() for rows in mine.rows_of("input_ids")] == [
    row[row_mask > 0].tolist() for row, row_mask in zip(batch.batch["input_ids"], batch.batch["attention_mask"])]


def refusal_of(act):
    try:
        act()
    except evenkeel.Error as error:
        return type(error).__name__ + ": " + str(error)
    return "nothing"


step = service.step(mine)
spread, exact = True, torch.zeros((), dtype=torch.float64)
for part in step:
    if part.empty:
        continue
    scores = part.per_row("score")
    spread = spread and len(scores) == len(part["loss_weights"])
    by_id = {int(i): float(s) for i, s in zip(part.samples, part["score"]) if i >= 0}
    padded = part.cu_seqlens_padded.tolist()
    for s, (begin, end) in enumerate(zip(padded, padded[1:])):
        rows = scores[begin // sizes["cp"] : end // sizes["cp"]]
        spread = spread and set(rows.tolist()) <= {by_id.get(int(part.samples[s]), 0.0)}
    exact += (part.exact_loss_weights * scores.double()).sum()
    part.put("values", part["input_ids"].double() * 2, kind="token")
    part.put("log_probs", part["old_log_probs"] + 1, kind="response_token")
results["spread"] = bool(spread)
results["weighted"] = float(exact)
collected = service.collect(step)
values = evenkeel.padded.results_like(collected, "values", batch)
mask = batch.batch["attention_mask"]
results["values"] = torch.equal(values, (batch.batch["input_ids"] * 2).double())
results["log_probs"] = torch.equal(
    evenkeel.padded.results_like(collected, "log_probs", batch, pad=0),
    torch.where(mask[:, 5:] > 0, batch.batch["old_log_probs"] + 1, torch.zeros(())))
results["no mask"] = refusal_of(lambda: len(evenkeel.padded.samples_of({"input_ids": mask}, first_id=0)))
results["too wide"] = refusal_of(lambda: len(evenkeel.padded.samples_of({**batch.batch, "response_mask": mask}, first_id=0)))
more = {**batch.batch, "response_mask": torch.ones(6, 7)}
results["other mask"] = refusal_of(lambda: len(evenkeel.padded.samples_of(more, first_id=0)))
results["gradient"] = refusal_of(lambda: len(evenkeel.padded.samples_of(
    {**batch.batch, "old_log_probs": batch.batch["old_log_probs"].clone().requires_grad_()}, first_id=0)))
together = evenkeel.DataService(over, evenkeel.Config(config, prefix={"share": True}), tensors="torch")
shared_step = together.step(evenkeel.Samples(
    ids=[3 * service.rank + i for i in range(3)], groups=[f"a prompt of {service.rank}"] * 3, prompt_lengths=[2] * 3,
    response_lengths=[3, 4, 2], token={"input_ids": [[1, 2, 10, 11, 12], [1, 2, 20, 21, 22, 23], [1, 2, 30, 31]]},
    sample={"score": [1.0, 2.0, 3.0]}))
sums = {}
for part in shared_step:
    if part.empty:
        continue
    rows, ends = part.per_row("score"), part.prediction_offsets.tolist()
    for s, (begin, end) in enumerate(zip(ends, ends[1:])):
        if part.samples[s] >= 0:
            sums[int(part.samples[s])] = [set(rows[begin:end].tolist()) - {float(part["score"][s])}, len(rows) == len(part["loss_weights"])]
results["shared"] = len(sums) > 0 and all(value == [set(), True] for value in sums.values())
results["odd"] = refusal_of(lambda: len(evenkeel.padded.samples_of({**batch.batch, "odd": torch.zeros(5)}, first_id=0)))


class ParallelState:
    """Megatron's parallel_state with this rank's position."""

    def __init__(self, place):
        self.place = place

    def __getattr__(self, name):
        axis = {"tensor_model": "tp", "context": "cp", "data": "dp", "pipeline_model": "pp"}[name.removeprefix("get_").split("_parallel")[0]]
        return lambda: (sizes if name.endswith("world_size") else self.place)[axis]


results["mesh"] = evenkeel.megatron.mesh(ParallelState(place)) == sizes
sources = evenkeel.DataService(over, evenkeel.Config(config, source={"kind": "synthetic", "samples": 60}, batch={"global_batch": 20}, micro_batch={"max_tokens": 32768}),
                               tensors="torch")
iterator = evenkeel.megatron.data_iterator(sources, parallel_state=ParallelState(place))
results["no step"] = refusal_of(lambda: iterator.num_microbatches)
shapes, counts = True, []
for step in iterator.steps():
    counts.append(iterator.num_microbatches)
    for _ in range(iterator.num_microbatches):
        made = next(iterator)
        rows = made["micro_batch"]["input_ids"].shape[0]
        shapes = shapes and all(tuple(made[name].shape) == (1, rows) for name in ("tokens", "labels", "loss_mask", "position_ids"))
        shapes = shapes and made["packed_seq_params"]["qkv_format"] == "thd" and made["attention_mask"] is None
results["shapes"], results["counts"] = bool(shapes), counts
again = evenkeel.DataService(over, evenkeel.Config(config, source={"kind": "synthetic", "samples": 60}, batch={"global_batch": 20}, micro_batch={"max_tokens": 32768}))
left = evenkeel.megatron.data_iterator(again, parallel_state=ParallelState(place))
results["left"] = refusal_of(lambda: [None for _ in left.steps()])
wrong = {**place, "dp": place["dp"] + 1}
results["place"] = refusal_of(lambda: evenkeel.megatron.data_iterator(sources, parallel_state=ParallelState(wrong)))
report_result(service.rank, results=results)
