"""Arguments of a Trainer that would change what a step trains are refused before the first step."""

import datasets
import pytest
from transformers import DataCollatorForSeq2Seq, LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

import evenkeel
from evenkeel.collate import PaddingFree
from evenkeel.huggingface import balanced

SAMPLES = [{"input_ids": [1] * length} for length in (3, 9, 5, 7)]


def loader(tmp_path, samples=SAMPLES, collator=PaddingFree(), settings=None, **arguments):
    model = LlamaForCausalLM(LlamaConfig(vocab_size=8, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1))
    args = TrainingArguments(output_dir=str(tmp_path), use_cpu=True, report_to="none", per_device_train_batch_size=4, **arguments)
    trainer = balanced(Trainer, **{"max_tokens": 16, **(settings or {})})
    return trainer(model=model, args=args, train_dataset=samples, data_collator=collator).get_train_dataloader()


@pytest.mark.parametrize(
    "change, text",
    [
        ({"gradient_accumulation_steps": 4}, "gradient_accumulation_steps: is 4, .* per_device_train_batch_size to 16"),
        ({"train_sampling_strategy": "group_by_length"}, "train_sampling_strategy: is 'group_by_length', but Evenkeel balances"),
        ({"collator": DataCollatorForSeq2Seq(None)}, "data_collator: has the type DataCollatorForSeq2Seq, and Evenkeel does not know"),
        ({"samples": iter(SAMPLES), "max_steps": 2}, "train_dataset: has the type list_iterator, which has no length"),
        ({"samples": datasets.Dataset.from_list([{**one, "seq_lengths": [3]} for one in SAMPLES])}, "train_dataset: has packed rows"),
        ({"settings": {"max_tokens": 8}}, r"lengths\[1\]: is 9, above max_tokens, 8"),
        ({"settings": {"balance": {"cots": "tokens"}}}, "balance.cots: unknown key"),
    ],
)
def test_incompatible_arguments_are_refused(tmp_path, change, text):
    with pytest.raises(evenkeel.Error, match=text):
        loader(tmp_path, **change)


def test_a_class_that_is_not_a_trainer_is_refused():
    with pytest.raises(evenkeel.InputError, match="does not support dict"):
        balanced(dict, max_tokens=16)


def test_a_custom_collator_is_planned_with_the_given_settings(tmp_path):
    collator = DataCollatorForSeq2Seq(None)
    packed, padded = (loader(tmp_path, collator=collator, settings={"padded": padded}) for padded in (False, True))
    assert sum(len(lists) for lists in packed.batch_sampler) < sum(len(lists) for lists in padded.batch_sampler)


def test_lengths_are_taken_from_their_column(tmp_path):
    samples = datasets.Dataset.from_list([{**one, "tokens": len(one["input_ids"])} for one in SAMPLES])
    found = loader(tmp_path, samples, length_column_name="tokens").batch_sampler.micro_batches
    assert found.lengths.tolist() == [3, 9, 5, 7] and found.max_tokens == 16
