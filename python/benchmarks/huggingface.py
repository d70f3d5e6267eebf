"""huggingface.py [ROUNDS]: measures tokens per second of processor time of a tiny model on two processes, trained by Hugging Face's
Trainer with Evenkeel, with its own samplers and with TRL's packing in turn, in an environment of launch/test-frameworks.sh huggingface.
"""

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import datasets
import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments
from trl import pack_dataset
from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

from evenkeel.collate import Padded, PaddingFree
from evenkeel.huggingface import balanced

PROCESSES, COUNT, WIDTH = 2, 512, 512
WAYS = {
    "random": {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 4},
    "`group_by_length`": {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 4, "train_sampling_strategy": "group_by_length"},
    "`batch_rebalance`": {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 4, "train_sampling_strategy": "batch_rebalance"},
    "TRL's packing, `bfd`": {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 4, "remove_unused_columns": False},
    "Evenkeel, padded": {"per_device_train_batch_size": 16},
    "Evenkeel, padding-free": {"per_device_train_batch_size": 16},
}


class Clock(TrainerCallback):
    """Processor time of each step. Waiting for the other process takes none, and other work on the machine does not count."""

    def on_train_begin(self, *_, **__):
        self.ends = [time.process_time()]

    def on_step_end(self, *_, **__):
        self.ends.append(time.process_time())

    def seconds(self):
        """Returns the sum over steps of the slower process's time."""
        own, found = np.diff(self.ends), [None] * PROCESSES
        torch.distributed.all_gather_object(found, own)
        return np.max(found, axis=0).sum()


def tokens_per_second(way, lengths, folder):
    """Returns true tokens of all processes in one epoch over the processor time of the slower process in each step."""
    data = datasets.Dataset.from_dict({"input_ids": [[1] * length for length in lengths]})
    kind, collator = Trainer, DataCollatorForLanguageModeling(pad_token_id=0)
    if way.startswith("TRL"):
        data, collator = pack_dataset(data, WIDTH), DataCollatorForLanguageModeling(pad_token_id=0, padding_free=True)
    elif way.startswith("Evenkeel"):
        kind, collator = balanced(Trainer, max_tokens=2 * WIDTH), Padded(0)
        if way.endswith("free"):
            kind, collator = balanced(Trainer, max_tokens=WIDTH), PaddingFree()
    model = LlamaForCausalLM(
        LlamaConfig(vocab_size=512, hidden_size=256, intermediate_size=768, num_hidden_layers=2, num_attention_heads=4, pad_token_id=0)
    )
    args = TrainingArguments(
        output_dir=folder, num_train_epochs=1, use_cpu=True, bf16=False, report_to="none", save_strategy="no", disable_tqdm=True,
        logging_strategy="no", ddp_find_unused_parameters=False, **WAYS[way],
    )
    clock = Clock()
    kind(model=model, args=args, train_dataset=data, data_collator=collator, callbacks=[clock]).train()
    return int(lengths.sum()) / clock.seconds()


def train_as_rank(rounds):
    lengths = np.random.RandomState(7).lognormal(4, 1, size=COUNT).astype(int).clip(2, 256)
    found = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        for round_ in range(rounds + 1):  # the first round is a warm-up
            for way in WAYS:
                speed = tokens_per_second(way, lengths, folder)
                if round_:
                    found[way].append(speed)
    if os.environ["RANK"] == "0":
        print("| way | tokens per processor second, median | x of random, median | least | most |\n|---|---:|---:|---:|---:|")
        for way, speeds in found.items():
            ratios = [speed / random for speed, random in zip(speeds, found["random"])]
            print(f"| {way} | {statistics.median(speeds):.0f} | {statistics.median(ratios):.2f} | {min(ratios):.2f} | {max(ratios):.2f} |")


def train(rounds):
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        port = trial.getsockname()[1]
    job = {"WORLD_SIZE": str(PROCESSES), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    started = [
        subprocess.Popen([sys.executable, __file__, str(rounds)], env={**os.environ, **job, "RANK": str(rank), "LOCAL_RANK": str(rank)})
        for rank in range(PROCESSES)
    ]
    sys.exit(max(process.wait() for process in started))


if __name__ == "__main__":
    given = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    train_as_rank(given) if "RANK" in os.environ else train(given)
