"""With Evenkeel's micro-batches, Megatron-Core's schedules, model, losses and reductions give the loss and the gradients that they give with
each sample in a separate micro-batch: on one process, and on two along every axis of the mesh."""

import json
import pathlib
import random
import sys

import numpy as np
import pytest

import jobs

HERE = pathlib.Path(__file__).parent
WRONG = ["wrong.shifted", "wrong.dropped"]
MESHES = {  # number of processes, and tp, cp, pp
    "one process": (1, "1,1,1"),
    "dp 2": (2, "1,1,1"),
    "tp 2": (2, "2,1,1"),
    "cp 2": (2, "1,2,1"),
    "pp 2": (2, "1,1,2"),
}
RELATIVE = 1e-6  # accuracy of float32


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    drawn = random.Random(5)

    def tokens(most):
        return [drawn.randrange(1, 64) for _ in range(drawn.randint(1, most))]

    path = tmp_path_factory.mktemp("samples") / "rollouts.jsonl"
    lines = [{"uid": index // 4, "prompt_ids": tokens(6), "response_ids": tokens(20)} for index in range(36)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def train(folder, samples, mesh, ways):
    processes, sizes = MESHES[mesh]
    command = [sys.executable, "-W", "ignore", str(HERE / "train.py"), str(folder), str(samples), *ways]
    jobs.processes(command, processes, over="torch", timeout=600, environment={"MESH": sizes})
    return {way: dict(np.load(folder / f"{way}.npz")) for way in ways}


@pytest.fixture(scope="module")
def plain(samples, tmp_path_factory):
    return train(tmp_path_factory.mktemp("plain"), samples, "one process", ["plain"])["plain"]


@pytest.fixture(scope="module", params=MESHES)
def found(request, samples, tmp_path_factory):
    ways = ["balanced", "per token", *WRONG] if request.param == "dp 2" else ["balanced"]
    return train(tmp_path_factory.mktemp("balanced"), samples, request.param, ways)


def difference(found, expected):
    """Returns the largest relative difference in a step, of losses and of gradients."""
    assert found.keys() == expected.keys() and len(found["loss"]) == len(expected["loss"]) == 3
    losses = np.abs(found["loss"] - expected["loss"]) / np.abs(expected["loss"])
    names = [name for name in expected if name != "loss"]
    parts = [np.concatenate([(way[name]).reshape(3, -1) for name in names], axis=1) for way in (found, expected)]
    norms = np.linalg.norm(parts[0] - parts[1], axis=1) / np.linalg.norm(parts[1], axis=1)
    return losses.max(), norms.max()


def test_loss_and_gradients_are_those_of_each_sample_by_itself(plain, found):
    for way in found.keys() - set(WRONG):
        loss, gradient = difference(found[way], plain)
        assert loss <= RELATIVE and gradient <= RELATIVE


@pytest.mark.parametrize("found", ["dp 2"], indirect=True)
@pytest.mark.parametrize("way", WRONG)
def test_the_comparison_finds_errors(plain, found, way):
    loss, gradient = difference(found[way], plain)
    assert loss > 100 * RELATIVE and gradient > 1000 * RELATIVE
