"""Checks the owner and the lifetime of the memory of delivered tensors."""

import gc

import numpy as np
import torch
from torch.utils.data import DataLoader

import evenkeel
import evenkeel.megatron
from evenkeel.dataset import StepDataset
from jobs import group, report_result

over = group()
config = {"micro_batch": {"max_tokens": 4096}, "profiles": {"log_prob": {}, "update": {"pack": {"align_lcm": 16}}}}
service = evenkeel.DataService(over, config)
results = {}


def samples(count=8, dtype=torch.bfloat16):
    lengths = np.arange(count) + 5
    return evenkeel.Samples(
        ids=np.arange(count) + service.rank * count, prompt_lengths=lengths, response_lengths=lengths,
        token={"input_ids": torch.arange(int(2 * lengths.sum())), "hidden": torch.ones(int(2 * lengths.sum()), 3, dtype=dtype)},
    )


step = service.step(samples(), "log_prob")
first = step.micro_batches[0]
tokens = first["input_ids"]
results["same memory each time"] = first["input_ids"].data_ptr() == tokens.data_ptr()
results["dtype"] = str(first["hidden"].dtype)
results["shape"] = list(first["hidden"].shape[1:])
copy = tokens.clone()
tokens += 1
results["the trainer may write"] = torch.equal(first["input_ids"], copy + 1)
tokens -= 1
later = service.step_again(step, "update")
results["micro-batches left"] = len(step.micro_batches)
again = later.micro_batches[0]["input_ids"]
del step, first, later
gc.collect()
ballast = [np.full(1 << 18, 7) for _ in range(8)]
results["views live on"] = torch.equal(tokens, copy) and int(again.max()) < 10_000
parameters = service.step(samples(), "log_prob").micro_batches[0]
results["megatron"] = sorted(parameters.packed_seq_params())
of_group = parameters.packed_seq_params("a group")
results["megatron's group"] = [of_group["cp_group"], of_group["local_cp_size"]]
results["flash"] = parameters.flash_attn_varlen_kwargs()["cu_seqlens_q"].dtype == torch.int32



def counted(act):
    """Returns the result of ``act``, and the number of tensors that it moves."""
    moves, to = [], torch.Tensor.to
    torch.Tensor.to = lambda tensor, *args, **kwargs: moves.append(tensor) or to(tensor, *args, **kwargs)
    try:
        return act(), len(moves)
    finally:
        torch.Tensor.to = to


on_device, results["copies to a device"] = counted(lambda: parameters.to("meta"))
asked = service.step(samples(), "log_prob").micro_batches[0]
asked.kinds(), asked.exact_loss_weights
results["copies after other questions"] = counted(lambda: asked.to("meta"))[1]
numpy = evenkeel.DataService(over, config, tensors="numpy").step(samples()).micro_batches[0]
numpy["input_ids"]
results["copies of arrays"] = counted(lambda: numpy.to("meta"))[1]
iterator = evenkeel.megatron.DataIterator(service, "meta")
iterator.begin(service.step(samples(), "log_prob"))
batch, results["copies for Megatron"] = counted(lambda: next(iterator))
results["on the device"] = batch["tokens"].is_meta and batch["packed_seq_params"]["cu_seqlens_q"].is_meta
padded = evenkeel.DataService(over, {"pack": {"align_lcm": 16}}).step(samples()).micro_batches[0]
results["one object"] = []
for params in (parameters.packed_seq_params(device="cpu"), batch["packed_seq_params"], padded.packed_seq_params()):
    ends = [params[f"cu_seqlens_{name}"] for name in ("q", "kv", "q_padded", "kv_padded")]
    results["one object"].append(len({id(end) for end in ends}))
    assert ends[0] is ends[1] and ends[2] is ends[3]
results["as they were"] = all(
    part == parameters[name] if name == "max_seqlen"
    else part.is_meta and (part.dtype, part.shape, part.stride()) == (parameters[name].dtype, parameters[name].shape, parameters[name].stride())
    for name, part in on_device.items()) and on_device.keys() == parameters.keys()

for dtype in (np.int8, np.int16, np.uint16, np.uint32):
    numbers = np.arange(10).astype(dtype)
    mine = evenkeel.Samples(
        ids=[service.rank], prompt_lengths=[4], response_lengths=[6], token={"input_ids": np.arange(10), "numbers": numbers})
    rows = service.step(mine, "log_prob").micro_batches[0]["numbers"]
    kept = evenkeel.DataService(over, config, tensors="numpy").step(mine, "log_prob").micro_batches[0]["numbers"]
    name = np.dtype(dtype).name
    results[name] = [
        str(rows.dtype).removeprefix("torch.") == (name if hasattr(torch, name) else f"int{16 * kept.itemsize}"),
        rows.tolist()[:10] == numbers.tolist(), kept.dtype == dtype and kept[:10].tolist() == numbers.tolist(),
    ]

results["no shape"] = parameters.shape
shaped = evenkeel.DataService(over, {"micro_batch": {"max_tokens": 4096, "shapes": 2}}).step(samples()).micro_batches[0]
results["shape of a graph"] = shaped.shape
results["shaped tensors"] = [list(shaped["input_ids"].shape), len(shaped.cu_seqlens), shaped.max_seqlen, list(shaped.samples.shape)]

arrays = evenkeel.DataService(over, config, tensors="numpy").step(samples()).micro_batches[0]
results["arrays to tensors"] = str(arrays.to("cpu")["hidden"].dtype)
numbers = torch.tensor([[1.0, 0.0, -0.15625]], dtype=torch.bfloat16).repeat(10, 1)
halves = evenkeel.Samples(ids=[service.rank], prompt_lengths=[4], response_lengths=[6], token={"input_ids": np.arange(10), "hidden": numbers},
                          rows={"pictures": [numbers]})
packed = evenkeel.DataService(over, config, tensors="numpy").step(halves).micro_batches[0]
results["bfloat16 in NumPy"] = [
    [str(rows.dtype), rows[0].tolist()]
    for rows in (halves["hidden"], halves["pictures"][0], packed["hidden"], packed["pictures"][0])
]
gc.collect()
service.step(samples(), "log_prob")
results["left for the collector"] = gc.collect()

sources = {"source": {"kind": "synthetic", "samples": 60}, "batch": {"global_batch": 20}}
loader = DataLoader(StepDataset(evenkeel.DataService(over, sources)), batch_size=None, num_workers=0)
results["loader"] = [part.index for part in loader]
mixed = evenkeel.DataService(over, {**sources, "micro_batch": {"max_tokens": 8192}})
list(mixed)
try:
    mixed.step(samples())
except evenkeel.InputError as error:
    results["mixed"] = str(error)
report_result(service.rank, results=results)
