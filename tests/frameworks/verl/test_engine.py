"""With Evenkeel's micro-batches, a mini-batch of verl's FSDP engine has the same loss, gradients and log-probabilities as with verl's, and no
more micro-batches."""

import pathlib
import sys

import numpy as np
import pytest

import jobs

HERE = pathlib.Path(__file__).parent
WAYS = ["whole", "verl", "evenkeel", "wrong.shifted", "wrong.unweighted", "service", "wrong.service", "delivered", "counts", "left to verl", "refused"]
RELATIVE = 1e-6  # accuracy of float32


@pytest.fixture(scope="module", params=[1, 2], ids=["one-process", "two-processes"])
def found(request, tmp_path_factory):
    """Returns, for each way, the results of each rank."""
    folder = tmp_path_factory.mktemp("verl")
    jobs.processes([sys.executable, str(HERE / "engine.py"), str(folder), *WAYS], request.param, over="torch", timeout=900)
    return {way: [dict(np.load(folder / f"{way}.{rank}.npz")) for rank in range(request.param)] for way in WAYS}


def difference(found, expected, name):
    return np.linalg.norm(found[name] - expected[name]) / np.linalg.norm(expected[name])


@pytest.mark.parametrize("other", ["verl", "whole"])
@pytest.mark.parametrize("name", ["loss", "gradient", "log_probs"])
def test_the_engine_gives_the_same_results_as_with_its_own_micro_batches(found, other, name):
    for ours, expected in zip(found["evenkeel"], found[other]):
        assert difference(ours, expected, name) <= RELATIVE


def test_micro_batches_keep_the_cap_and_are_no_more_than_verls(found):
    for ours, expected in zip(found["evenkeel"], found["verl"]):
        assert 1 < len(ours["tokens"]) <= len(expected["tokens"])
        assert ours["tokens"].max() <= 64 and ours["tokens"].sum() == expected["tokens"].sum()


def test_random_batches_are_cut_into_no_more_micro_batches_than_verls(found):
    counts = found["counts"][0]["counts"]
    assert all(np.array_equal(counts, rank["counts"]) for rank in found["counts"])
    assert (counts[:, 1] <= counts[:, 0]).all() and (counts[:, 1] < counts[:, 0]).any()


def test_other_batches_are_cut_by_verl(found):
    for rank in found["left to verl"]:
        assert rank["same"].all() and (rank["counts"] > 1).all()


# The service distributes samples over the ranks, so only results of all ranks together are the same.
def test_the_engine_computes_the_same_with_whole_samples_of_the_service(found):
    assert difference(found["service"][0], found["verl"][0], "gradient") <= RELATIVE
    assert np.isclose(*(np.mean([rank["loss"] for rank in found[way]]) for way in ("service", "verl")), rtol=RELATIVE, atol=0)


def test_every_rank_of_a_context_group_gets_whole_samples_as_verl_has_them(found):
    assert all(np.array_equal(rank["ids"], found["delivered"][0]["ids"]) for rank in found["delivered"])
    assert sorted(found["delivered"][0]["ids"]) == list(range(24 * len(found["delivered"])))
    assert len(found["delivered"][0]["counts"]) > 1


@pytest.mark.parametrize("way", ["wrong.shifted", "wrong.unweighted", "wrong.service"])
def test_the_comparison_finds_errors(found, way):
    assert difference(found[way][0], found["verl"][0], "gradient") > 1000 * RELATIVE


def test_all_ranks_raise_if_one_cannot_cut_its_samples(found):
    texts = [rank["texts"].tolist() for rank in found["refused"]]
    assert "has 70 tokens" in texts[-1][0]
    if len(texts) == 2:
        assert texts[0][0] == "micro-batches: another rank cannot cut its samples into micro-batches. See the error of that rank"
        assert all("a rank has only 1 sample, but each rank needs 3 micro-batches" in rank[1] for rank in texts)
