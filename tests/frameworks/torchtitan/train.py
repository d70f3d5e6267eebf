"""A rank of a job in which torchtitan's Trainer trains a tiny Llama in several ways.

    train.py FOLDER WAY...

WAYS defines how each way trains. Rank 0 writes FOLDER/WAY.npz with ``loss`` [steps], ``gradient`` [steps, parameters] and ``shapes``, [rows,
tokens] of each batch.

torchtitan has no CPU backend, so this file adds one, and computes the attention of documents without torchtitan's kernels, which need a GPU.
"""

import dataclasses
import os
import pathlib
import sys
import tempfile
import types
from unittest import mock

import numpy as np
import torch
import torch._utils
import torch.nn.functional as functional

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "python/tests/service"))
import jobs

cpu = types.SimpleNamespace(
    set_device=lambda device: None, device_count=lambda: 1, current_device=lambda: 0, synchronize=lambda: None,
    get_device_name=lambda device: "CPU", get_device_properties=lambda device: types.SimpleNamespace(total_memory=1),
    reset_peak_memory_stats=lambda: None, empty_cache=lambda: None, memory_stats=lambda device: {},
)
torch._utils._get_available_device_type, torch._utils._get_device_module = (lambda: "cpu"), (lambda device: cpu)
if not hasattr(torch.distributed, "set_timeout"):  # missing in PyTorch 2.13, which has a build for CPUs
    torch.distributed.set_timeout = lambda timeout, group: None

from datasets import Dataset
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor, distribute_tensor
from torchtitan.components.checkpointer import CheckpointManager
from torchtitan.components.dataloader import BaseDataLoader
from torchtitan.components.loss import IGNORE_INDEX, ChunkedLossWrapper
from torchtitan.components.metrics import MetricsProcessor
from torchtitan.components.optimizer import LRSchedulersContainer, default_adamw
from torchtitan.components.tokenizer import BaseTokenizer
from torchtitan.config import ParallelismConfig, TrainingConfig
from torchtitan.hf_datasets.text_datasets import ChatDataset
from torchtitan.models.common.attention import VarlenAttention
from torchtitan.models.llama3 import model_registry
from torchtitan.trainer import Trainer

from evenkeel.torchtitan import BalancedDataLoader

VOCABULARY, EOS = 2048, 2
SEQ_LEN, ROWS, STEPS, SAMPLES = 64, 4, 3, 60
WORLD = int(os.environ.get("WORLD_SIZE", "1"))


class DocumentAttention(VarlenAttention):
    """VarlenAttention in float32 on a CPU: attends within each document, using the same cu_seqlens."""

    @dataclasses.dataclass(kw_only=True, slots=True)
    class Config(VarlenAttention.Config):
        pass

    def forward(self, q_BLNH, k_BLNH, v_BLNH, *, attention_masks, scale=None, **others):
        lengths = attention_masks.cu_seq_q.diff().tolist()
        documents = [part.reshape(-1, *part.shape[2:]).split(lengths) for part in (q_BLNH, k_BLNH, v_BLNH)]
        seen = [
            functional.scaled_dot_product_attention(*(part.transpose(0, 1)[None] for part in parts), scale=scale, is_causal=True)
            for parts in zip(*documents)
        ]
        return torch.cat([part[0].transpose(0, 1) for part in seen]).reshape(q_BLNH.shape)


class Tokenizer(BaseTokenizer):
    """Tokenizes texts that list token numbers: "5 7 9"."""

    @dataclasses.dataclass(kw_only=True, slots=True)
    class Config(BaseTokenizer.Config):
        pass

    def __init__(self, config, **others):
        super().__init__()
        self.eos_id = EOS

    def encode(self, text, add_bos, add_eos):
        return [int(token) for token in text.split()]

    def decode(self, tokens):
        return " ".join(map(str, tokens))

    def get_vocab_size(self):
        return VOCABULARY

    def apply_chat_template(self, messages, add_generation_prompt=False):
        return " ".join(message["content"] for message in messages)


def make_texts():
    random = np.random.RandomState(4)
    lengths = random.lognormal(2.7, 0.7, size=SAMPLES).astype(int).clip(4, SEQ_LEN)
    tokens = [random.randint(3, VOCABULARY, size=length).tolist() for length in lengths]
    return [(row[: len(row) // 3], row[len(row) // 3 :]) for row in tokens]


def samples_of(tokenizer):
    """Returns the data set for Evenkeel, in which each label belongs to its own token."""
    return [
        {"input_ids": [*prompt, *response, EOS], "labels": [IGNORE_INDEX] * len(prompt) + [*response, EOS]}
        for prompt, response in make_texts()
    ]


def messages_of(row):
    return [{"role": role, "content": " ".join(map(str, row[role]))} for role in ("user", "assistant")]


def rows_of_torchtitan(texts):
    """Returns rows of torchtitan's own data set for chats, which packs samples in their order."""
    data = Dataset.from_list([{"user": prompt, "assistant": response} for prompt, response in texts])
    return list(ChatDataset(data, Tokenizer(None), messages_of, seq_len=SEQ_LEN))


def steps_of(loader):
    """Returns the samples of each step of a loader of all rows."""
    first, found = 0, []
    for _ in loader:
        state = loader.state_dict()
        if state["taken"] == 0:
            found.append((first, state["first"]))
            first = state["first"]
        if len(found) == STEPS:
            return found


class Plain(BaseDataLoader):
    """Steps of the samples that Evenkeel's steps have on this number of ranks, in rows of torchtitan's own data set: up to 2 * ROWS."""

    @dataclasses.dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):
        ranks: int

    def __init__(self, config, **others):
        loader = balanced_config(config.ranks).build(
            dp_world_size=config.ranks, dp_rank=0, tokenizer=Tokenizer(None), seq_len=SEQ_LEN, local_batch_size=1
        )
        self.steps = steps_of(loader)

    def __iter__(self):
        padding = {"input": torch.full((SEQ_LEN,), EOS), "positions": torch.arange(SEQ_LEN)}, torch.full((SEQ_LEN,), IGNORE_INDEX)
        for first, last in self.steps:
            rows = rows_of_torchtitan(make_texts()[first:last])
            for batch, labels in rows + [padding] * (2 * ROWS - len(rows)):
                yield {name: row.clone()[None] for name, row in batch.items()}, labels[None]

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


class Recorded(Trainer):
    """torchtitan's trainer, with initial weights that do not depend on the number of processes. Keeps losses and gradients."""

    def __init__(self, config):
        super().__init__(config)
        torch.manual_seed(3)
        with torch.no_grad():
            for parameter in self.parameters():
                values = torch.randn(parameter.shape) * 0.05
                whole = isinstance(parameter, DTensor)
                parameter.copy_(distribute_tensor(values, parameter.device_mesh, parameter.placements) if whole else values)
        for module in self.model_parts[0].modules():
            if isinstance(module, FSDPModule):
                module.set_force_sum_reduction_for_comms(True)  # gloo supports no other reduction that FSDP uses
        self.loss, self.gradient, self.shapes = [], [], []
        self.metrics_processor.log = lambda step, loss, *others, **more: self.loss.append(loss)

    def parameters(self):
        return [parameter for part in self.model_parts for parameter in part.parameters()]

    def forward_backward_step(self, *, input_dict, labels, **others):
        self.shapes.append(input_dict["input"].shape)
        return super().forward_backward_step(input_dict=input_dict, labels=labels, **others)

    def train_step(self, data_iterator):
        step = self.optimizers.step
        self.optimizers.step = lambda: (self.gradient.append(self.whole_gradient()), step())
        try:
            super().train_step(data_iterator)
        finally:
            self.optimizers.step = step

    def whole_gradient(self):
        gradients = [parameter.grad for parameter in self.parameters()]
        return torch.cat([(part.full_tensor() if isinstance(part, DTensor) else part).flatten() for part in gradients]).numpy().copy()


def configurable(kind):
    """Returns a subclass with a Config that builds this subclass; the inherited Config would build the base class."""
    config = dataclasses.dataclass(kw_only=True, slots=True)(type("Config", (kind.Config,), {"__qualname__": f"{kind.__name__}.Config"}))
    return type(kind.__name__, (kind,), {"Config": config})


def balanced_config(ranks, kind=BalancedDataLoader):
    return kind.Config(samples=samples_of, global_batch_size=ROWS, shuffle=False)


@configurable
class Shifted(BalancedDataLoader):
    """Wrong: labels that are one row late."""

    def _collate(self, rows):
        batch, labels = super()._collate(rows)
        return batch, labels.roll(1, dims=1)


@configurable
class Joined(BalancedDataLoader):
    """Wrong: positions that continue across all samples of a row, which then attend to each other."""

    def _collate(self, rows):
        batch, labels = super()._collate(rows)
        return {**batch, "positions": torch.arange(SEQ_LEN).expand_as(labels)}, labels


@configurable
class Dropped(BalancedDataLoader):
    """Wrong: the last label of each row has no loss."""

    def _collate(self, rows):
        batch, labels = super()._collate(rows)
        for row in labels:
            row[row.ne(IGNORE_INDEX).nonzero()[-1]] = IGNORE_INDEX
        return batch, labels


def tiny_llama():
    spec = model_registry("debugmodel", attn_backend="varlen")
    spec.model.layers = spec.model.layers[:2]
    for layer in spec.model.layers:
        layer.attention.inner_attention = DocumentAttention.Config()
    return spec


def train(dataloader, rows=ROWS, batch=1, steps=STEPS, folder=None):
    config = Trainer.Config(
        model_spec=tiny_llama(), loss=ChunkedLossWrapper.Config(), optimizer=default_adamw(lr=1e-3), tokenizer=Tokenizer.Config(),
        lr_scheduler=LRSchedulersContainer.Config(warmup_steps=0, total_steps=STEPS), dataloader=dataloader, metrics=MetricsProcessor.Config(log_freq=1),
        activation_checkpoint=None, parallelism=ParallelismConfig(data_parallel_shard_degree=-1, spmd_backend="partial_dtensor"),
        checkpoint=CheckpointManager.Config(enable=folder is not None, interval=1, last_save_model_only=False),
        dump_folder=str(folder or tempfile.mkdtemp()),
        training=TrainingConfig(
            local_batch_size=batch, global_batch_size=rows, seq_len=SEQ_LEN, steps=steps, max_norm=1e9,
            mixed_precision_param="float32", disable_cuda_graphs=True,
        ),
    )
    trainer = Recorded(config)
    with mock.patch("time.sleep"):  # skips the pause of two seconds at the end of every job
        trainer.train()
    trainer.close()
    leave_process_group()
    return trainer


def leave_process_group():
    """Ends the process group, and agrees on a new port, so no rank of the next job connects to this one."""
    port = [str(jobs.free_port())]
    torch.distributed.broadcast_object_list(port)
    os.environ["MASTER_PORT"] = port[0]
    torch.distributed.destroy_process_group()


def train_and_resume(folder):
    """Trains two steps, ends, and continues from the checkpoint."""
    before = train(balanced_config(WORLD), steps=2, folder=folder)
    after = train(balanced_config(WORLD), folder=folder)
    after.loss[:0], after.gradient[:0] = before.loss, before.gradient
    return after


WAYS = {
    "plain.1": lambda folder: train(Plain.Config(ranks=1), rows=2 * ROWS),
    "plain.2": lambda folder: train(Plain.Config(ranks=2), rows=2 * ROWS),
    "balanced": lambda folder: train(balanced_config(WORLD)),
    "two rows": lambda folder: train(balanced_config(WORLD), batch=2),
    "resumed": train_and_resume,
    "wrong.shifted": lambda folder: train(balanced_config(WORLD, Shifted)),
    "wrong.joined": lambda folder: train(balanced_config(WORLD, Joined)),
    "wrong.dropped": lambda folder: train(balanced_config(WORLD, Dropped)),
}

if __name__ == "__main__":
    for way in sys.argv[2:]:
        folder = pathlib.Path(sys.argv[1], way)
        found = WAYS[way](folder)
        if os.environ["RANK"] == "0":
            np.savez(f"{folder}.npz", loss=found.loss, gradient=found.gradient, shapes=found.shapes)
