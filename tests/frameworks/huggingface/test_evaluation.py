"""Evaluation uses the trainer's own batches, and works with Evenkeel's collators."""

import datasets
import pytest
from transformers import Trainer, TrainingArguments
from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

import train
from evenkeel.collate import Padded, PaddingFree
from evenkeel.huggingface import balanced


def evaluation_loss(kind, collator, tmp_path):
    args = TrainingArguments(output_dir=str(tmp_path), use_cpu=True, report_to="none", per_device_eval_batch_size=8, disable_tqdm=True)
    data = datasets.Dataset.from_list(train.make_samples())
    trainer = kind(model=train.make_model(), args=args, train_dataset=data, eval_dataset=data, data_collator=collator)
    return trainer.evaluate()["eval_loss"]


@pytest.mark.parametrize("collator", [PaddingFree(), Padded(0)], ids=["padding-free", "padded"])
def test_the_loss_is_that_of_padded_batches(tmp_path, collator):
    expected = evaluation_loss(Trainer, DataCollatorForLanguageModeling(pad_token_id=0), tmp_path)
    assert evaluation_loss(balanced(Trainer, max_tokens=64), collator, tmp_path) == pytest.approx(expected, rel=1e-6)
