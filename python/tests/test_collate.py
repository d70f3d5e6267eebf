"""Collators keep the tokens and labels of samples, and no token predicts a token of another sequence."""

import numpy as np
import pytest

import evenkeel
from evenkeel.collate import Padded, PaddingFree, Steps

torch = pytest.importorskip("torch")

SAMPLES = [{"input_ids": [11, 12, 13], "labels": [-100, 12, 13]}, {"input_ids": [21, 22], "labels": [21, 22]}]


def listed(batch):
    return {name: value.tolist() if hasattr(value, "tolist") else value for name, value in batch.items()}


def test_padding_free_rows_are_back_to_back():
    assert listed(PaddingFree()(SAMPLES)) == {
        "input_ids": [[11, 12, 13, 21, 22]],
        "labels": [[-100, 12, 13, -100, 22]],
        "position_ids": [[0, 1, 2, 0, 1]],
        "use_cache": False,
        "cu_seq_lens_q": [0, 3, 5],
        "cu_seq_lens_k": [0, 3, 5],
        "max_length_q": 3,
        "max_length_k": 3,
        "seq_idx": [[0, 0, 0, 1, 1]],
    }


def test_the_dtypes_are_those_of_the_kernels():
    batch = PaddingFree()(SAMPLES)
    assert {batch[name].dtype for name in ("input_ids", "labels", "position_ids")} == {torch.int64}
    assert {batch[name].dtype for name in ("cu_seq_lens_q", "cu_seq_lens_k", "seq_idx")} == {torch.int32}
    assert set(PaddingFree(boundaries=False)(SAMPLES)) == {"input_ids", "labels", "position_ids", "use_cache"}


def test_padded_rows_have_the_width_of_the_longest():
    assert listed(Padded(9, pad_to_multiple_of=4)(SAMPLES)) == {
        "input_ids": [[11, 12, 13, 9], [21, 22, 9, 9]],
        "labels": [[-100, 12, 13, -100], [-100, 22, -100, -100]],
        "attention_mask": [[1, 1, 1, 0], [1, 1, 0, 0]],
    }


def test_without_labels_each_token_is_its_own():
    assert PaddingFree()([{"input_ids": np.array([5, 6, 7])}])["labels"].tolist() == [[-100, 6, 7]]
    assert PaddingFree()([{"input_ids": torch.tensor([5, 6, 7])}])["labels"].tolist() == [[-100, 6, 7]]


def test_the_samples_are_not_changed():
    labels = np.array([21, 22])
    PaddingFree()([{"input_ids": np.array([21, 22]), "labels": labels}])
    assert labels.tolist() == [21, 22]


@pytest.mark.parametrize("collator", [PaddingFree(7), Padded(7)])
def test_a_micro_batch_without_samples_is_one_token_without_loss(collator):
    batch = listed(collator([]))
    assert (batch["input_ids"], batch["labels"]) == ([[7]], [[-100]])


def test_a_step_is_a_list_of_micro_batches():
    step = Steps(PaddingFree())([SAMPLES[:1], [], SAMPLES[1:]])
    assert [batch["input_ids"].tolist() for batch in step] == [[[11, 12, 13]], [[0]], [[21, 22]]]


@pytest.mark.parametrize(
    "sample, text",
    [
        ({"input_ids": []}, r"samples\[0\]\['input_ids'\]: is empty"),
        ({"input_ids": [1, 2], "labels": [1]}, r"samples\[0\]\['labels'\]: has 1 value for 2 tokens. Give each token a label"),
        ({"input_ids": [[1, 2]]}, r"samples\[0\]\['input_ids'\]: has the shape \[1, 2\]"),
        ({"input_ids": [1, 2], "attention_mask": [1, 0]}, r"samples\[0\]\['attention_mask'\]: is not 1 at every token"),
        ({"input_ids": [1, 2], "completion_mask": [0, 1]}, r"samples\[0\]\['completion_mask'\]: would be ignored. Set labels to -100"),
        ({"input_ids": [1, 2], "seq_lengths": [1, 1]}, r"samples\[0\]\['seq_lengths'\]: would be ignored. Pass samples that are not packed"),
        ({"labels": [1]}, r"samples\[0\]: has no input_ids. Give each sample its tokens"),
    ],
)
def test_samples_that_do_not_fit_are_refused(sample, text):
    with pytest.raises(evenkeel.InputError, match=text):
        PaddingFree()([sample])


def test_labels_are_given_for_all_samples_or_none():
    with pytest.raises(evenkeel.InputError, match=r"samples\[1\]: has no labels, unlike samples\[0\]"):
        Padded(0)([SAMPLES[0], {"input_ids": [1]}])
