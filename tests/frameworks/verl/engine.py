"""A rank of a job in which verl's FSDP engine trains one mini-batch of a tiny model, with verl's micro-batches or with Evenkeel's.

    engine.py FOLDER WAY...

Writes FOLDER/WAY.RANK.npz with ``loss`` (of all micro-batches), ``gradient``, ``log_probs`` of the rank's samples in their order, and
``tokens`` of each micro-batch. Ways that only cut batches write their own results.
"""

import os
import pathlib
import sys

import numpy as np
import torch
import torch.distributed as distributed
from tensordict import TensorDict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from transformers import LlamaConfig, LlamaForCausalLM
from verl.plugin.platform import set_platform
from verl.plugin.platform.platform_cuda import PlatformCUDA
from verl.utils import tensordict_utils
from verl.utils.seqlen_balancing import restore_dynamic_batch
from verl.workers.engine import utils
from verl.workers.engine.fsdp import transformer_impl
from verl.workers.utils.losses import sft_loss

import evenkeel
import evenkeel.verl

CAP, SAMPLES, VOCABULARY = 64, 24, 50


class PlatformCPU(PlatformCUDA):
    """The CPU as a platform of verl, which has one for each kind of accelerator and accepts others."""

    device_name, device_module = "cpu", torch.cpu

    def current_device(self):
        return "cpu"


class Engine(transformer_impl.FSDPEngineWithLMHead):
    """verl's engine with an existing model. verl's own engines also skip FSDPEngine.__init__."""

    def __init__(self, module):
        self.module = module
        self.engine_config = type("Settings", (), {"use_no_sync_for_gradient_accumulation": True, "entropy_checkpointing": False})()
        self.ulysses_sequence_parallel_size, self.use_ulysses_sp, self.pad_to_length = 1, False, None
        self._autocast_dtype = torch.float32

    def get_data_parallel_group(self):
        return distributed.group.WORLD

    def get_data_parallel_size(self):
        return distributed.get_world_size()

    def _get_packed_pad_size(self, tokens):
        return 0


def jagged(rows):
    return torch.nested.as_nested_tensor([torch.as_tensor(row) for row in rows], layout=torch.jagged)


def rows_of(rank):
    """Returns the tokens of a rank's samples."""
    random = np.random.RandomState(10 + rank)
    lengths = random.lognormal(2.5, 0.7, size=SAMPLES).astype(int).clip(2, 60)
    return [random.randint(1, VOCABULARY, size=length) for length in lengths]


def batch(rank, cap):
    """Returns the input of a verl worker: jagged rows without an attention mask, and fields that the engine does not know."""
    tokens = rows_of(rank)
    lengths = [len(row) for row in tokens]
    masks = [(np.arange(length) >= length // 3).astype(int) for length in lengths]
    for mask in masks:
        mask[0] = 0  # no token predicts the first one
    data = TensorDict(
        {
            "input_ids": jagged(tokens),
            "position_ids": jagged([np.arange(length) for length in lengths]),
            "loss_mask": jagged(masks),
            "routed_experts": torch.nested.as_nested_tensor(
                [torch.full((int(length), 2, 4), index, dtype=torch.int16) for index, length in enumerate(lengths)], layout=torch.jagged
            ),
            "min_global_steps": torch.arange(SAMPLES),
        },
        batch_size=SAMPLES,
    )
    tensordict_utils.assign_non_tensor(
        data, use_dynamic_bsz=True, max_token_len_per_gpu=cap, temperature=1.0, return_model_output=True,
        tools=[{"name": f"tool {index}"} for index in range(SAMPLES)],
    )
    return data


def model_of_shards():
    torch.manual_seed(3)
    sizes = {"vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    model = LlamaForCausalLM(LlamaConfig(**sizes, num_attention_heads=4, num_key_value_heads=2))
    mesh = init_device_mesh("cpu", (distributed.get_world_size(),))
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def gradient_of(model):
    return torch.cat([parameter.grad.full_tensor().flatten() for parameter in model.parameters()]).numpy()


def train(cap=CAP, loss=sft_loss):
    model, tokens = model_of_shards(), []

    def counted(model_output, data, dp_group=None):
        assert torch.equal(data["routed_experts"].values()[:, 0, 0], data["min_global_steps"].repeat_interleave(data["input_ids"].offsets().diff()))
        assert [tool["name"] for tool in data["tools"]] == [f"tool {index}" for index in data["min_global_steps"].tolist()]
        tokens.append(len(data["input_ids"].values()))
        return loss(None, model_output=model_output, data=data, dp_group=dp_group)

    output = Engine(model).forward_backward_batch(batch(distributed.get_rank(), cap), counted)
    return {
        "loss": sum(output["loss"]),
        "gradient": gradient_of(model),
        # The last row of a sequence predicts the first token of the next sequence, and has no loss.
        "log_probs": torch.cat([row[:-1] for row in output["model_output"]["log_probs"].unbind()]).detach().numpy(),
        "tokens": tokens,
    }


def shifted_loss(config, model_output, data, dp_group=None):
    """Wrong: a mask that is one token late."""
    data["loss_mask"] = torch.nested.nested_tensor_from_jagged(data["loss_mask"].values().roll(1), data["input_ids"].offsets())
    return sft_loss(config, model_output=model_output, data=data, dp_group=dp_group)


def unweighted_loss(config, model_output, data, dp_group=None):
    """Wrong: each micro-batch is divided by its own tokens only."""
    tensordict_utils.assign_non_tensor(data, batch_num_tokens=int(data["loss_mask"].values().sum()))
    return sft_loss(config, model_output=model_output, data=data, dp_group=dp_group)


def train_with_evenkeel(**changes):
    original = utils.prepare_micro_batches
    evenkeel.verl.install()
    assert transformer_impl.prepare_micro_batches is utils.prepare_micro_batches is evenkeel.verl.prepare_micro_batches
    try:
        return train(**changes)
    finally:
        transformer_impl.prepare_micro_batches = utils.prepare_micro_batches = original


def service_step(cp):
    """Returns a step of Evenkeel's service with the samples of batch() as whole samples. Their fields include positions with three axes."""
    rank, tokens = distributed.get_rank(), rows_of(distributed.get_rank())
    lengths = np.array([len(row) for row in tokens])
    prompts = np.maximum(1, lengths // 3)
    samples = evenkeel.Samples(
        ids=SAMPLES * rank + np.arange(SAMPLES), prompt_lengths=prompts, response_lengths=lengths - prompts,
        token={
            "input_ids": tokens,
            "routed_experts": [np.full((length, 2, 4), index, dtype=np.int16) for index, length in enumerate(lengths)],
        },
        axes={"position_ids": [np.stack([np.arange(length)] * 3) for length in lengths]},
        response_token={"old_log_probs": [-np.arange(length, dtype=np.float32) for length in lengths - prompts]},
        rows={"patches": [np.full((index % 3, 2), index) for index in range(SAMPLES)]},
        sample={"min_global_steps": np.arange(SAMPLES)},
        text={"tool": [f"tool {index}" for index in range(SAMPLES)]},
    )
    settings = {"micro_batch": {"max_tokens": CAP}, "mesh": {"cp": cp}, "pack": {"deliver": "samples"}}
    return evenkeel.DataService(distributed.group.WORLD, settings).step(samples)


def train_with_service(loss=sft_loss):
    """Trains the mini-batch of train() with micro-batches of the service."""
    model, step, losses = model_of_shards(), service_step(cp=1), []

    def weighted(model_output, data, dp_group=None):
        tensordict_utils.assign_non_tensor(data, batch_num_tokens=step.num_loss_tokens)
        return loss(None, model_output=model_output, data=data, dp_group=dp_group)

    for micro_batch in step:
        data = evenkeel.verl.tensordict_of(micro_batch)
        data["position_ids"] = jagged([axes[0] for axes in data["position_ids"].unbind()])  # the model has positions with one axis
        tensordict_utils.assign_non_tensor(data, use_dynamic_bsz=False, micro_batch_size_per_gpu=len(data), temperature=1.0)
        losses += Engine(model).forward_backward_batch(data, weighted)["loss"]
    return {"loss": sum(losses), "gradient": gradient_of(model)}


def check_delivered_samples():
    """Returns the samples of each micro-batch of a rank, after checking that they equal the samples that were supplied. All ranks are in one
    context-parallel group."""
    ids = []
    for micro_batch in service_step(cp=distributed.get_world_size()):
        data = tensordict_utils.contiguous(evenkeel.verl.tensordict_of(micro_batch, responses=["old_log_probs"]))
        ids.append(micro_batch.samples.tolist())
        assert torch.equal(data["input_ids"].offsets(), micro_batch.cu_seqlens) and data["position_ids"].shape[1] == 3
        for sample, *values in zip(ids[-1], *(data[name].unbind() for name in ("input_ids", "loss_mask", "routed_experts", "position_ids"))):
            theirs, index = batch(sample // SAMPLES, CAP), sample % SAMPLES
            tokens, mask, experts, positions = values
            assert torch.equal(tokens, theirs["input_ids"][index]) and torch.equal(mask.long(), theirs["loss_mask"][index])
            assert torch.equal(experts, theirs["routed_experts"][index])
            assert all(torch.equal(axis, theirs["position_ids"][index]) for axis in positions)
        indices = [sample % SAMPLES for sample in ids[-1]]
        assert data["min_global_steps"].tolist() == indices and list(data["tool"]) == [f"tool {index}" for index in indices]
        for index, patches, response in zip(indices, data["patches"].unbind(), data["old_log_probs"].unbind()):
            assert patches.tolist() == [[index, index]] * (index % 3) and response.tolist() == [-float(token) for token in range(len(response))]
    return {"ids": sum(ids, []), "counts": [len(part) for part in ids]}


def random_batch(seed, padded):
    """Returns a mini-batch of this rank with only the fields needed to split it. Its positions have four axes, like those of models of images.
    """
    random = np.random.RandomState([seed, distributed.get_rank()])
    lengths = random.lognormal(4.6, 0.4, size=32).astype(int).clip(1, 512)
    if padded:
        mask = np.arange(600) >= 600 - lengths[:, None]  # padding on the left
        rows = {"input_ids": torch.ones(32, 600, dtype=torch.long), "attention_mask": torch.as_tensor(mask.astype(int))}
        rows["position_ids"] = torch.as_tensor(random.randint(9, size=(32, 4, 600)))
    else:
        rows = {"input_ids": jagged([np.ones(length, dtype=int) for length in lengths])}
        rows["position_ids"] = jagged([random.randint(9, size=(4, length)) for length in lengths])
    data = TensorDict({**rows, "index": torch.arange(32)}, batch_size=32)
    tensordict_utils.assign_non_tensor(data, max_token_len_per_gpu=600 if padded else 512)
    return data, lengths


def count_micro_batches():
    """Returns the numbers of micro-batches of verl and of Evenkeel, for both kinds of batches. Checks that each sample is in one micro-batch,
    and that none exceeds the cap."""
    found = []
    for seed in range(20):
        data, lengths = random_batch(seed, padded=seed % 2 == 1)
        settings = {"dp_group": distributed.group.WORLD, "num_batches_divided_by": 1 + seed % 3}
        of_both = [cut(data, **settings) for cut in (utils.prepare_micro_batches, evenkeel.verl.prepare_micro_batches)]
        micro_batches, lists = of_both[1]
        assert sorted(sum(lists, [])) == list(range(32)) and len(lists) % settings["num_batches_divided_by"] == 0
        assert [part["index"].tolist() for part in micro_batches] == lists
        positions = [axes for part in micro_batches for axes in part["position_ids"].unbind()]
        assert all(map(torch.equal, positions, [data["position_ids"].unbind()[index] for index in sum(lists, [])]))
        assert max(lengths[indices].sum() for indices in lists) <= data["max_token_len_per_gpu"]
        assert torch.equal(restore_dynamic_batch(torch.cat([part["index"] for part in micro_batches]), lists), torch.arange(32))
        found.append([len(parts) for parts, _ in of_both])
    return {"counts": found}


def compare_other_batches():
    """Returns whether batches with fixed micro-batch sizes, and batches with grouped samples, are cut as by verl."""
    same = []
    for settings in ({"use_dynamic_bsz": False, "micro_batch_size_per_gpu": 4}, {"force_group_size": 2}):
        data, _ = random_batch(1, padded=False)
        tensordict_utils.assign_non_tensor(data, **{"max_token_len_per_gpu": 2048, **settings})
        cut = [function(data, distributed.group.WORLD) for function in (utils.prepare_micro_batches, evenkeel.verl.prepare_micro_batches)]
        same.append([[part["index"].tolist() for part in parts] for parts, _ in cut])
    return {"same": [verls == ours for verls, ours in same], "counts": [len(ours) for _, ours in same]}


def collect_refusals():
    """Returns the errors that ranks raise if only the last one has a sample above the cap, and if one has fewer samples than there are
    micro-batches."""
    texts, last = [], distributed.get_rank() == distributed.get_world_size() - 1
    for lengths in ([70] if last else [5], [60] if last else [60, 60, 60]):
        data = TensorDict({"input_ids": jagged([np.ones(length, dtype=int) for length in lengths])}, batch_size=len(lengths))
        tensordict_utils.assign_non_tensor(data, max_token_len_per_gpu=64)
        try:
            evenkeel.verl.prepare_micro_batches(data, distributed.group.WORLD)
            texts.append("nothing")
        except evenkeel.Error as error:
            texts.append(str(error))
    return {"texts": texts}


WAYS = {
    "whole": lambda: train(cap=100_000),
    "verl": train,
    "evenkeel": train_with_evenkeel,
    "wrong.shifted": lambda: train_with_evenkeel(loss=shifted_loss),
    "wrong.unweighted": lambda: train_with_evenkeel(loss=unweighted_loss),
    "service": train_with_service,
    "wrong.service": lambda: train_with_service(loss=shifted_loss),
    "delivered": check_delivered_samples,
    "counts": count_micro_batches,
    "left to verl": compare_other_batches,
    "refused": collect_refusals,
}

if __name__ == "__main__":
    set_platform(PlatformCPU())
    distributed.init_process_group("gloo")
    for way in sys.argv[2:]:
        np.savez(pathlib.Path(sys.argv[1]) / f"{way}.{os.environ['RANK']}", **WAYS[way]())
    distributed.destroy_process_group()
