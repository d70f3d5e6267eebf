"""A rank of a job in which Megatron-Core's schedules train a GPT of two layers in several ways.

    train.py FOLDER SAMPLES WAY...

WAYS defines how each way trains on the rank's place in the mesh; the environment's MESH is tp,cp,pp, and the other axis is data-parallel.
Writes FOLDER/WAY.npz with ``loss`` [steps] and the gradient of each parameter [steps, ...], unsharded and under its name in a model without
pipeline stages.

Megatron-Core asks for CUDA devices by name. Here they are the CPU.
"""

import json
import os
import pathlib
import sys
import types
import zlib

import numpy as np
import torch
import torch.distributed as distributed
import torch.distributed.nn.functional
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

torch.cuda.current_device, torch.cuda.synchronize = (lambda: "cpu"), (lambda: None)
torch.cuda.current_stream = lambda *device: types.SimpleNamespace(wait_stream=lambda stream: None, wait_event=lambda event: None)

from megatron.core import parallel_state
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.packed_seq_params import PackedSeqParams
from megatron.core.pipeline_parallel.schedules import get_forward_backward_func
from megatron.core.tensor_parallel.random import initialize_rng_tracker
from megatron.core.transformer import TransformerConfig
from megatron.core.transformer.module import MegatronModule

import evenkeel
import evenkeel.megatron

VOCABULARY, HIDDEN, CAP, BATCH = 64, 32, 64, 12


class OnCPU(TorchFunctionMode):
    """Makes tensors on the CPU if Megatron-Core requests CUDA by name."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if "device" in kwargs and str(kwargs["device"]).startswith("cuda"):
            kwargs["device"] = "cpu"
        return function(*args, **kwargs)


class PackedAttention(MegatronModule):
    """Computes attention of packed sequences from their PackedSeqParams, as TEDotProductAttention does on a GPU: causal in each sequence, of
    which every context-parallel rank has one chunk from the front and one from the back."""

    def __init__(self, config, **others):
        super().__init__(config=config)

    def forward(self, query, key, value, attention_mask, attn_mask_type=None, attention_bias=None, packed_seq_params=None):
        group = parallel_state.get_context_parallel_group()
        ends = packed_seq_params.cu_seqlens_q_padded.tolist()
        rows = [rows_of_rank(ends, rank, group.size()) for rank in range(group.size())]
        if group.size() > 1:
            key, value = (torch.cat(distributed.nn.functional.all_gather(part.contiguous(), group)) for part in (key, value))
        own, others = torch.tensor(rows[group.rank()]), torch.tensor(sum(rows, []))
        sequence = torch.bucketize(torch.arange(ends[-1]), torch.tensor(ends[1:]), right=True)
        seen = (own[:, None] >= others) & (sequence[own][:, None] == sequence[others])
        heads = (part.transpose(0, 1)[None] for part in (query, key, value))
        return scaled_dot_product_attention(*heads, attn_mask=seen)[0].transpose(0, 1).reshape(len(own), 1, -1)


def rows_of_rank(ends, rank, ranks):
    rows = []
    for first, last in zip(ends, ends[1:]):
        chunk = (last - first) // (2 * ranks)
        for begin in (first + rank * chunk, last - (rank + 1) * chunk):
            rows += range(begin, begin + chunk)
    return rows if ranks > 1 else list(range(ends[-1]))


def make_model(packed, per_token):
    """Returns a model whose weights depend only on the names of parameters."""
    tp, cp, pp = (int(size) for size in os.environ["MESH"].split(","))
    config = TransformerConfig(
        num_layers=2, hidden_size=HIDDEN, num_attention_heads=4, use_cpu_initialization=True, attention_dropout=0, hidden_dropout=0,
        tensor_model_parallel_size=tp, context_parallel_size=cp, pipeline_model_parallel_size=pp, pipeline_dtype=torch.float32,
        variable_seq_lengths=pp > 1, moe_token_dispatcher_type="alltoall", batch_p2p_sync=False, calculate_per_token_loss=per_token, bias_dropout_fusion=False,
        gradient_accumulation_fusion=False,
    )
    spec = get_gpt_layer_local_spec()
    if packed:
        spec.submodules.self_attention.submodules.core_attention = PackedAttention
    model = GPTModel(
        config, spec, vocab_size=VOCABULARY, max_sequence_length=CAP, position_embedding_type="rope",
        pre_process=parallel_state.is_pipeline_first_stage(), post_process=parallel_state.is_pipeline_last_stage(),
    )
    with torch.no_grad():
        for name, parameter in named_parameters(model):
            whole = list(parameter.shape)
            if getattr(parameter, "tensor_model_parallel", False):
                whole[parameter.partition_dim] *= tp
            generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
            parameter.copy_(shard(parameter, 0.2 * torch.randn(whole, generator=generator)) + name.endswith("norm.weight"))
    ddp = DistributedDataParallelConfig(grad_reduce_in_fp32=True, overlap_grad_reduce=False, use_distributed_optimizer=False)
    wrapped = DistributedDataParallel(config, ddp, model)
    config.finalize_model_grads_func = finalize_model_grads
    config.no_sync_func = wrapped.no_sync
    return wrapped


def named_parameters(model):
    """Yields parameters with the names that they have in a model without pipeline stages."""
    for name, parameter in model.named_parameters():
        parts = name.split(".")
        if "layers" in parts:
            at = parts.index("layers") + 1
            parts[at] = str(model.decoder.layers[int(parts[at])].layer_number - 1)
        yield ".".join(parts), parameter


def shard(parameter, whole):
    if not getattr(parameter, "tensor_model_parallel", False):
        return whole
    parts = whole.chunk(parallel_state.get_tensor_model_parallel_world_size(), parameter.partition_dim)
    return parts[parallel_state.get_tensor_model_parallel_rank()]


def whole_gradient(parameter):
    gradient, group = parameter.main_grad, parallel_state.get_tensor_model_parallel_group()
    if not getattr(parameter, "tensor_model_parallel", False):
        return gradient.numpy().copy()
    parts = [torch.empty_like(gradient) for _ in range(group.size())]
    distributed.all_gather(parts, gradient.contiguous(), group=group)
    return torch.cat(parts, parameter.partition_dim).numpy()


class Recorded:
    """Trains steps with Megatron's own schedule and plain gradient descent, and keeps losses and gradients."""

    def __init__(self, packed, per_token):
        self.model, self.losses, self.gradients = make_model(packed, per_token), [], []

    def step(self, forward_step, data_iterator, num_microbatches):
        self.model.zero_grad_buffer()
        figures = get_forward_backward_func()(
            forward_step_func=forward_step, data_iterator=data_iterator, model=[self.model], num_microbatches=num_microbatches,
            seq_length=None, micro_batch_size=1,
        )
        loss = sum((figure["loss"] for figure in figures), torch.zeros(()))
        distributed.all_reduce(loss, group=parallel_state.get_data_parallel_group(with_context_parallel=True))
        distributed.all_reduce(loss, group=parallel_state.get_pipeline_model_parallel_group())
        self.losses.append(float(loss))
        parameters = dict(named_parameters(self.model.module))
        of_stages = [None] * parallel_state.get_pipeline_model_parallel_world_size()
        own = {name: whole_gradient(parameter) for name, parameter in parameters.items()}
        distributed.all_gather_object(of_stages, own, group=parallel_state.get_pipeline_model_parallel_group())
        self.gradients.append({name: gradient for stage in of_stages for name, gradient in stage.items()})
        with torch.no_grad():
            for parameter in parameters.values():
                parameter -= 0.1 * parameter.main_grad

    def found(self):
        return {"loss": self.losses, **{name: [step[name] for step in self.gradients] for name in self.gradients[0]}}


def train_each_sample(samples):
    """Trains each sample as a separate micro-batch with Megatron-Core's own attention. The loss is the mean over all tokens."""
    lines = [json.loads(line) for line in open(samples)]
    recorded = Recorded(packed=False, per_token=True)

    def forward_step(data_iterator, model):
        line = next(data_iterator)
        tokens = torch.tensor([line["prompt_ids"] + line["response_ids"]])
        mask = torch.arange(1, tokens.shape[1]) >= len(line["prompt_ids"])
        hidden = torch.ones(1, 1, *[tokens.shape[1] - 1] * 2, dtype=torch.bool).triu(1)
        losses = model(tokens[:, :-1], torch.arange(tokens.shape[1] - 1)[None], hidden, labels=tokens[:, 1:])

        def loss_func(losses):
            total, count = (losses[0] * mask).sum(), mask.sum().int()
            return total, count, {"loss": total.detach() / all_tokens}

        return losses, loss_func

    for first in range(0, len(lines), BATCH):
        step = lines[first : first + BATCH]
        all_tokens = sum(len(line["response_ids"]) for line in step)
        recorded.step(forward_step, iter(step), len(step))
    return recorded.found()


def train_with_evenkeel(samples, per_token=False, change=lambda batch: None):
    """Trains with the loop of the page."""
    recorded = Recorded(packed=True, per_token=per_token)
    job = {"source": {"kind": "jsonl", "path": samples}, "batch": {"global_batch": BATCH}, "micro_batch": {"max_tokens": CAP}}
    service = evenkeel.DataService(distributed.group.WORLD, {"mesh": evenkeel.megatron.mesh(), **job})
    iterator = evenkeel.megatron.data_iterator(service)

    def forward_step(data_iterator, model):
        batch = next(data_iterator)
        change(batch)
        losses = model(
            batch.get("tokens"), batch.get("position_ids"), batch["attention_mask"], labels=batch.get("labels"),
            packed_seq_params=PackedSeqParams(**batch["packed_seq_params"]),
        )
        return losses, lambda losses: evenkeel.megatron.loss(batch, losses)

    for _ in iterator.steps():
        recorded.step(forward_step, iterator, iterator.num_microbatches)
    return recorded.found()


def shift_labels(batch):
    if "labels" in batch:
        batch["labels"] = batch["labels"].roll(1)


def drop_loss(batch):
    if "loss_weights" in batch:
        batch["loss_weights"] = batch["loss_weights"].clone()
        batch["loss_weights"].flatten()[batch["loss_weights"].flatten().nonzero()[:1]] = 0


WAYS = {
    "plain": train_each_sample,
    "balanced": train_with_evenkeel,
    "per token": lambda samples: train_with_evenkeel(samples, per_token=True),
    "wrong.shifted": lambda samples: train_with_evenkeel(samples, change=shift_labels),
    "wrong.dropped": lambda samples: train_with_evenkeel(samples, change=drop_loss),
}

if __name__ == "__main__":
    distributed.init_process_group("gloo")
    tp, cp, pp = (int(size) for size in os.environ["MESH"].split(","))
    parallel_state.initialize_model_parallel(tp, pp, context_parallel_size=cp)
    initialize_rng_tracker(inference_rng_tracker=True)  # This tracker draws nothing, and nothing needs to be drawn without dropout.
    with OnCPU():
        for way in sys.argv[3:]:
            found = WAYS[way](sys.argv[2])
            if distributed.get_rank() == 0:
                np.savez(pathlib.Path(sys.argv[1], way), **found)
    distributed.destroy_process_group()
