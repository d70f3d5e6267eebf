"""With Evenkeel's rows, torchtitan's Trainer has, in each step, the loss and the gradients that it has with rows of its own data set, on one
process and on two (FSDP over gloo)."""

import pathlib
import sys

import numpy as np
import pytest

import jobs

HERE = pathlib.Path(__file__).parent
BALANCED = ["balanced", "two rows", "resumed"]
WRONG = ["wrong.shifted", "wrong.joined", "wrong.dropped"]
RELATIVE = 1e-6  # accuracy of float32


def train(folder, processes, ways):
    jobs.processes([sys.executable, str(HERE / "train.py"), str(folder), *ways], processes, over="torch", timeout=900)
    return {way: dict(np.load(folder / f"{way}.npz")) for way in ways}


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return train(tmp_path_factory.mktemp("plain"), 1, ["plain.1", "plain.2"])


@pytest.fixture(scope="module", params=[1, 2], ids=["one-process", "two-processes"])
def found(request, plain, tmp_path_factory):
    """Returns the results of each way, and as "plain" those of torchtitan's own way with the samples of this number of ranks."""
    ways = train(tmp_path_factory.mktemp("balanced"), request.param, [*BALANCED, *WRONG])
    return {**ways, "plain": plain[f"plain.{request.param}"], "processes": request.param}


def difference(found, expected):
    """Returns the largest relative difference in a step, of losses and of gradients."""
    assert found["loss"].shape == expected["loss"].shape and found["gradient"].shape == expected["gradient"].shape
    losses = np.abs(found["loss"] - expected["loss"]) / np.abs(expected["loss"])
    norms = np.linalg.norm(found["gradient"] - expected["gradient"], axis=1) / np.linalg.norm(expected["gradient"], axis=1)
    return losses.max(), norms.max()


@pytest.mark.parametrize("way", BALANCED)
def test_loss_and_gradients_are_those_of_torchtitans_own_rows(found, way):
    loss, gradient = difference(found[way], found["plain"])
    assert loss <= RELATIVE and gradient <= RELATIVE


def test_a_step_has_as_many_rows_as_configured(found):
    assert found["balanced"]["shapes"].tolist() == [[1, 64]] * (3 * 4 // found["processes"])
    assert found["two rows"]["shapes"].tolist() == [[2, 64]] * (3 * 2 // found["processes"])


@pytest.mark.parametrize("way", WRONG)
def test_the_comparison_finds_errors(found, way):
    loss, gradient = difference(found[way], found["plain"])
    assert loss > 50 * RELATIVE and gradient > 1000 * RELATIVE
