"""A rank of a training job: trains a tiny model in several ways, and writes the losses and gradients of each.

    train.py FOLDER WAY...

WAYS defines how each way trains. All ways train on the same samples in the same order, with SAMPLES per update step over all ranks. Rank 0
writes FOLDER/WAY.npz with ``loss`` [steps], ``gradient`` [steps, parameters] and ``micro_batches`` [steps].
"""

import os
import pathlib
import sys
import tempfile
from contextlib import nullcontext

import datasets
import numpy as np
import torch
from accelerate import Accelerator
from tokenizers import Tokenizer, models
from torch.utils.data import DataLoader
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, Trainer, TrainerCallback, TrainingArguments
from trl import SFTConfig, SFTTrainer
from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

from evenkeel.collate import Padded, PaddingFree
from evenkeel.huggingface import balanced, loss_tokens, step_loader
from evenkeel.sampler import BalancedBatchSampler

VOCABULARY, PAD = 60, 0
SAMPLES, STEPS, CAP = 8, 4, 64
WORLD = int(os.environ.get("WORLD_SIZE", "1"))


def make_samples():
    random = np.random.RandomState(5)
    lengths = np.minimum(random.lognormal(2.6, 0.8, size=SAMPLES * STEPS).astype(int) + 2, 60)
    samples = []
    for length in lengths:
        tokens = random.randint(1, VOCABULARY, size=length).tolist()
        prompt = max(0, random.randint(-length, length))  # often 0: then every token has a loss, including the first one
        samples.append({"input_ids": tokens, "labels": [-100] * prompt + tokens[prompt:]})
    return samples


def make_model():
    torch.manual_seed(3)
    sizes = {"vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    return LlamaForCausalLM(LlamaConfig(**sizes, num_attention_heads=4, num_key_value_heads=2, pad_token_id=PAD))


def gradient_of(model):
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()]).numpy().copy()


class Record(TrainerCallback):
    """Keeps the gradient that the optimizer gets in each update step."""

    def __init__(self):
        self.loss, self.gradient, self.micro_batches = [], [], []

    def on_pre_optimizer_step(self, args, state, control, model=None, **others):
        self.gradient.append(gradient_of(model))

    def save(self, folder, way):
        np.savez(pathlib.Path(folder) / way, loss=self.loss, gradient=self.gradient, micro_batches=self.micro_batches)


def recording_subclass(trainer):
    """Returns a subclass that keeps the loss of each training step."""

    class Recorded(trainer):
        def training_step(self, model, inputs, num_items_in_batch=None):
            loss = super().training_step(model, inputs, num_items_in_batch)
            self.record.loss.append(float(self.accelerator.reduce(loss.clone(), "mean")))
            self.record.micro_batches.append(len(inputs) if isinstance(inputs, list) else 1)
            return loss

    return Recorded


def train(kind, *, collator, arguments=TrainingArguments, model=None, resume_at=None, **changes):
    """Trains one epoch, or continues from the checkpoint of a run that ended after step ``resume_at``."""
    with tempfile.TemporaryDirectory() as own:
        folder = shared_folder(own)
        settings = {
            "output_dir": folder, "per_device_train_batch_size": SAMPLES // WORLD, "num_train_epochs": 1, "learning_rate": 1e-2,
            "lr_scheduler_type": "constant", "optim": "sgd", "max_grad_norm": 0, "train_sampling_strategy": "sequential",
            "use_cpu": True, "report_to": "none", "save_strategy": "no", "logging_strategy": "no", "disable_tqdm": True,
            "bf16": False, **changes,
        }
        records = []
        for steps in [resume_at, None] if resume_at else [None]:
            whole = steps is None
            ends = {} if whole else {"save_strategy": "steps", "save_steps": steps}
            trainer = recording_subclass(kind)(
                model=model or make_model(), args=arguments(**{**settings, **ends}), data_collator=collator,
                train_dataset=datasets.Dataset.from_list(make_samples()), callbacks=[EndAfter(steps)],
                **({"processing_class": tokenizer()} if arguments is SFTConfig else {}),
            )
            trainer.record = Record()
            trainer.add_callback(trainer.record)
            trainer.train(resume_from_checkpoint=None if not records else f"{folder}/checkpoint-{resume_at}")
            records.append(trainer.record)
        if len(records) == 2:
            for name in ("loss", "gradient", "micro_batches"):
                getattr(records[1], name)[:0] = getattr(records[0], name)
        return records[-1]


class EndAfter(TrainerCallback):
    def __init__(self, steps):
        self.steps = steps

    def on_step_end(self, args, state, control, **others):
        control.should_training_stop |= state.global_step == self.steps


def shared_folder(own):
    """Returns rank 0's temporary folder on every rank."""
    if WORLD == 1:
        return own
    from accelerate.utils import broadcast_object_list

    Accelerator(cpu=True)
    return broadcast_object_list([own])[0]


def tokenizer():
    words = {f"w{index}": index for index in range(VOCABULARY)}
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel(words, "w1")), pad_token="w0", eos_token="w2")


def train_with_padding(kind, **changes):
    """Trains in the framework's own way: one padded batch per update step, on this rank alone."""
    return train(kind, collator=DataCollatorForLanguageModeling(pad_token_id=PAD), **changes)


def train_with_evenkeel(kind, collator=PaddingFree(), cap=CAP, **changes):
    return train(balanced(kind, max_tokens=cap), collator=collator, **changes)


def with_accelerate(prepare):
    """Trains with a loop over Accelerate; ``prepare`` returns an iterator of steps, which are lists of batches."""
    accelerator, record = Accelerator(cpu=True), Record()
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    model, optimizer = accelerator.prepare(model, optimizer)
    for step in prepare(accelerator):
        items, loss = accelerator.reduce(loss_tokens(step)), 0
        for index, batch in enumerate(step):
            with accelerator.no_sync(model) if index + 1 < len(step) else nullcontext():
                part = model(**batch, num_items_in_batch=items).loss * accelerator.num_processes
                accelerator.backward(part)
            loss += part.detach()
        record.loss.append(float(accelerator.reduce(loss, "mean")))
        record.micro_batches.append(len(step))
        record.gradient.append(gradient_of(accelerator.unwrap_model(model)))
        optimizer.step()
        optimizer.zero_grad()
    return record


def sampler(rank):
    lengths = [len(sample["input_ids"]) for sample in make_samples()]
    return BalancedBatchSampler(lengths, CAP, global_batch=SAMPLES, ranks=WORLD, rank=rank, shuffle=False)


def steps_of_evenkeel(accelerator):
    return step_loader(make_samples(), sampler(accelerator.process_index), PaddingFree(), accelerator=accelerator)


def micro_batches_that_accelerate_distributes(accelerator):
    """Lets accelerator.prepare, unchanged, distribute the micro-batches of all ranks to the processes."""
    loader = accelerator.prepare(DataLoader(make_samples(), batch_sampler=sampler("all"), collate_fn=PaddingFree()))
    batches, counts = iter(loader), sampler("all").counts
    yield from ([next(batches) for _ in range(count)] for count in counts)
    assert next(batches, None) is None


def padded_steps(accelerator):
    samples, collator = make_samples(), DataCollatorForLanguageModeling(pad_token_id=PAD)
    return [[collator(samples[step * SAMPLES : (step + 1) * SAMPLES])] for step in range(STEPS)]


class Shifted(PaddingFree):
    """Wrong: labels that are already shifted, and that the model shifts again."""

    def __call__(self, samples):
        batch = super().__call__(samples)
        batch["labels"] = torch.nn.functional.pad(batch["labels"][:, 1:], (0, 1), value=-100)
        return batch


class Joined(PaddingFree):
    """Wrong: the last token of a sequence predicts the first token of the next one."""

    def __call__(self, samples):
        batch = super().__call__(samples)
        given = np.concatenate([sample["labels"] for sample in samples]) if samples else [-100]
        batch["labels"] = torch.as_tensor(np.array(given))[None]
        return batch


class OneSequence(PaddingFree):
    """Wrong: positions that continue across sequences, which then attend to each other."""

    def __call__(self, samples):
        batch = super().__call__(samples)
        batch["position_ids"] = torch.arange(batch["input_ids"].shape[1])[None]
        return batch


class Unweighted(Trainer):
    """Wrong: each micro-batch is divided by its own tokens, as if it were the whole step."""

    def training_step(self, model, inputs, num_items_in_batch=None):
        return super().training_step(model, inputs, self._get_num_items_in_batch([inputs], inputs["labels"].device))


WAYS = {
    "trainer.plain": lambda: train_with_padding(Trainer),
    "trainer.padding_free": lambda: train_with_evenkeel(Trainer),
    "trainer.padded": lambda: train_with_evenkeel(Trainer, Padded(PAD), cap=128),
    "trainer.workers": lambda: train_with_evenkeel(Trainer, dataloader_num_workers=2),
    "trainer.resumed": lambda: train_with_evenkeel(Trainer, resume_at=2),
    "trainer.empty": lambda: train_with_evenkeel(Trainer, cap=60, per_device_train_batch_size=2 // WORLD),
    "trainer.plain_of_two": lambda: train_with_padding(Trainer, per_device_train_batch_size=2),
    "sft.plain": lambda: train_with_padding(SFTTrainer, arguments=SFTConfig, max_length=None, gradient_checkpointing=False),
    "sft.padding_free": lambda: train_with_evenkeel(SFTTrainer, arguments=SFTConfig, max_length=None, gradient_checkpointing=False),
    "sft.checkpointing": lambda: train_with_evenkeel(SFTTrainer, arguments=SFTConfig, max_length=None, gradient_checkpointing=True),
    "accelerate.plain": lambda: with_accelerate(padded_steps),
    "accelerate.steps": lambda: with_accelerate(steps_of_evenkeel),
    "accelerate.prepared": lambda: with_accelerate(micro_batches_that_accelerate_distributes),
    "wrong.shifted": lambda: train_with_evenkeel(Trainer, Shifted()),
    "wrong.joined": lambda: train_with_evenkeel(Trainer, Joined()),
    "wrong.one_sequence": lambda: train_with_evenkeel(Trainer, OneSequence()),
    "wrong.unweighted": lambda: train_with_evenkeel(Unweighted),
}


if __name__ == "__main__":
    for way in sys.argv[2:]:
        record = WAYS[way]()
        if os.environ["RANK"] == "0":
            record.save(sys.argv[1], way)
