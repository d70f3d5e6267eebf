"""Trained with Evenkeel, Hugging Face's Trainer, TRL's SFTTrainer and Accelerate have, in each step, the loss and the gradients of the
frameworks' own padded batches, on one process and on two."""

import pathlib
import sys

import numpy as np
import pytest

import jobs

HERE = pathlib.Path(__file__).parent

PLAIN = ["trainer.plain", "trainer.plain_of_two", "sft.plain", "accelerate.plain"]
BALANCED = {
    "trainer.padding_free": "trainer.plain",
    "trainer.padded": "trainer.plain",
    "trainer.workers": "trainer.plain",
    "trainer.resumed": "trainer.plain",
    "trainer.empty": "trainer.plain_of_two",
    "sft.padding_free": "sft.plain",
    "sft.checkpointing": "sft.plain",
    "accelerate.steps": "accelerate.plain",
    "accelerate.prepared": "accelerate.plain",
}
WRONG = ["wrong.shifted", "wrong.joined", "wrong.one_sequence", "wrong.unweighted"]
RELATIVE = 1e-6  # accuracy of float32


def train(folder, processes, ways):
    command = [sys.executable, str(HERE / "train.py"), str(folder), *ways]
    jobs.processes(command, processes, over="torch", timeout=900)
    return {way: dict(np.load(folder / f"{way}.npz")) for way in ways}


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return train(tmp_path_factory.mktemp("plain"), 1, PLAIN)


@pytest.fixture(scope="module", params=[1, 2], ids=["one-process", "two-processes"])
def balanced(request, tmp_path_factory):
    return train(tmp_path_factory.mktemp("balanced"), request.param, [*BALANCED, *WRONG])


def difference(found, expected):
    """Returns the largest relative difference in a step, of losses and of gradients."""
    assert found["loss"].shape == expected["loss"].shape and found["gradient"].shape == expected["gradient"].shape
    losses = np.abs(found["loss"] - expected["loss"]) / np.abs(expected["loss"])
    norms = np.linalg.norm(found["gradient"] - expected["gradient"], axis=1) / np.linalg.norm(expected["gradient"], axis=1)
    return losses.max(), norms.max()


@pytest.mark.parametrize("way", BALANCED)
def test_loss_and_gradients_are_those_of_padded_batches(plain, balanced, way):
    loss, gradient = difference(balanced[way], plain[BALANCED[way]])
    assert loss <= RELATIVE and gradient <= RELATIVE


@pytest.mark.parametrize("way", ["trainer.padding_free", "accelerate.steps"])
def test_steps_have_different_numbers_of_micro_batches(balanced, way):
    counts = balanced[way]["micro_batches"]
    assert len(set(counts)) > 1 and counts.max() > 1


@pytest.mark.parametrize("way", WRONG)
def test_the_comparison_finds_errors(plain, balanced, way):
    loss, gradient = difference(balanced[way], plain["trainer.plain"])
    assert loss > 100 * RELATIVE and gradient > 1000 * RELATIVE
