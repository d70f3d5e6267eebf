"""A rank of a job in which TRL's GRPOTrainer trains a tiny model, with its own batches or with Evenkeel's micro-batches of each batch.

    grpo.py FOLDER WAY...

Writes FOLDER/WAY.RANK.npz with ``loss`` [batches], ``gradient`` [steps, parameters] and ``micro_batches`` [batches], their numbers of tokens
with padding.
"""

import os
import pathlib
import sys
import tempfile

import datasets
import numpy as np
from trl import GRPOConfig, GRPOTrainer

import evenkeel
from evenkeel.huggingface import balanced
from train import VOCABULARY, Record, make_model, shared_folder, tokenizer

BATCH, GENERATIONS, CAP = 8, 4, 96


def completions(prompts, trainer):
    """Returns completions of very different lengths. They replace those of the model, whose tokens are all equally likely to be the last."""
    random = np.random.RandomState([trainer.state.global_step, trainer.accelerator.process_index])
    lengths = np.minimum(random.lognormal(2.4, 0.9, size=len(prompts)).astype(int) + 1, 40)
    return {
        "prompt_ids": [[int(word[1:]) for word in prompt.split()] for prompt in prompts],
        "completion_ids": [random.randint(3, VOCABULARY, size=length).tolist() + [2] * int(length % 3 > 0) for length in lengths],
        "logprobs": None,
    }


def reward(completion_ids, **others):
    return [float(sum(tokens) % 11) for tokens in completion_ids]


def prompts():
    random = np.random.RandomState(7)
    return [" ".join(f"w{token}" for token in random.randint(3, VOCABULARY, size=random.randint(2, 16))) for _ in range(16)]


def train_and_record(kind, **changes):
    """Trains in double precision: losses of whole batches are small differences of large numbers."""

    class Recorded(kind):
        def _compute_loss(self, model, inputs):
            self.tokens.append(inputs["prompt_ids"].numel() + inputs["completion_ids"].numel())
            return super()._compute_loss(model, inputs)

        def training_step(self, model, inputs, num_items_in_batch):
            self.tokens = []
            loss = super().training_step(model, inputs, num_items_in_batch)
            self.record.loss.append(float(loss))
            self.record.micro_batches.append(self.tokens + [0] * (BATCH - len(self.tokens)))
            return loss

    with tempfile.TemporaryDirectory() as own:
        settings = {
            "output_dir": shared_folder(own), "per_device_train_batch_size": BATCH, "num_generations": GENERATIONS, "num_iterations": 2,
            "gradient_accumulation_steps": 2, "max_completion_length": 41, "max_steps": 6, "learning_rate": 0.05,
            "lr_scheduler_type": "constant", "optim": "sgd", "max_grad_norm": 0, "use_cpu": True, "bf16": False, "report_to": "none",
            "save_strategy": "no", "disable_tqdm": True, "gradient_checkpointing": False, **changes,
        }
        trainer = Recorded(
            model=make_model().double(), args=GRPOConfig(**settings), reward_funcs=reward, rollout_func=completions,
            train_dataset=datasets.Dataset.from_dict({"prompt": prompts()}), processing_class=tokenizer(),
        )
        trainer.record = Record()
        trainer.add_callback(trainer.record)
        trainer.train()
    return trainer.record


def train_with_evenkeel(kind=GRPOTrainer, cap=CAP, **changes):
    return train_and_record(balanced(kind, max_tokens=cap), **changes)


class Unweighted(balanced(GRPOTrainer, max_tokens=CAP)):
    """Wrong: each micro-batch has the same weight as the whole batch."""

    def _loss_weight(self, part, inputs):
        return 1


class Late(GRPOTrainer):
    """Wrong: each sample has the advantages of the previous one."""

    def _compute_loss(self, model, inputs):
        return super()._compute_loss(model, {**inputs, "advantages": inputs["advantages"].roll(1)})


def error_of(act):
    try:
        act()
    except evenkeel.Error as error:
        return str(error)
    return "nothing"


def collect_refusals():
    means = [{"top_entropy_quantile": 0.5}, {"entropy_coef": 0.01}]
    texts = [error_of(lambda: train_with_evenkeel(cap=40)), *(error_of(lambda: train_with_evenkeel(**mean)) for mean in means)]
    return type("Refused", (), {"save": lambda self, folder, way: np.savez(pathlib.Path(folder) / way, texts=texts)})()


SETTINGS = {
    **{loss: {"loss_type": loss} for loss in ["dapo", "grpo", "bnpo", "dr_grpo", "cispo", "sapo", "vespo"]},
    "luspo": {"loss_type": "luspo", "importance_sampling_level": "sequence"},
    "truncated": {"mask_truncated_completions": True},
}
WAYS = {
    **{f"plain.{kind}": lambda changes=changes: train_and_record(GRPOTrainer, **changes) for kind, changes in SETTINGS.items()},
    **{f"evenkeel.{kind}": lambda changes=changes: train_with_evenkeel(**changes) for kind, changes in SETTINGS.items()},
    "wrong.unweighted": lambda: train_and_record(Unweighted, loss_type="grpo"),
    "wrong.late": lambda: train_with_evenkeel(Late, loss_type="grpo"),
    "refused": collect_refusals,
}

if __name__ == "__main__":
    os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
    for way in sys.argv[2:]:
        WAYS[way]().save(sys.argv[1], f"{way}.{os.environ['RANK']}")
