"""With Evenkeel's micro-batches, TRL's GRPOTrainer computes the losses and the gradients of its own batches, on one process and on two."""

import pathlib
import sys

import numpy as np
import pytest

import evenkeel
import jobs
from evenkeel.huggingface import balanced

HERE = pathlib.Path(__file__).parent
KINDS = ["dapo", "grpo", "bnpo", "dr_grpo", "cispo", "sapo", "vespo", "luspo", "truncated"]
WRONG = ["wrong.unweighted", "wrong.late"]
RELATIVE = 1e-6


@pytest.fixture(scope="module", params=[1, 2], ids=["one-process", "two-processes"])
def found(request, tmp_path_factory):
    """Returns, for each way, the results of each rank."""
    folder = tmp_path_factory.mktemp("grpo")
    ways = [f"{whose}.{kind}" for kind in KINDS for whose in ("plain", "evenkeel")] + WRONG + ["refused"]
    jobs.processes([sys.executable, str(HERE / "grpo.py"), str(folder), *ways], request.param, over="torch", timeout=900)
    return {way: [dict(np.load(folder / f"{way}.{rank}.npz")) for rank in range(request.param)] for way in ways}


def difference(ours, theirs, name):
    """Returns the largest difference in a batch or a step, relative to the largest value in all of them, since many losses are near 0."""
    each = [np.linalg.norm(values.reshape(len(values), -1), axis=1) for values in (ours[name] - theirs[name], theirs[name])]
    return each[0].max() / each[1].max()


@pytest.mark.parametrize("name", ["loss", "gradient"])
@pytest.mark.parametrize("kind", KINDS)
def test_losses_and_gradients_are_those_of_whole_batches(found, kind, name):
    for ours, theirs in zip(found[f"evenkeel.{kind}"], found[f"plain.{kind}"]):
        assert difference(ours, theirs, name) <= RELATIVE


@pytest.mark.parametrize("kind", KINDS)
def test_micro_batches_keep_the_cap_that_whole_batches_exceed_and_all_ranks_have_as_many(found, kind):
    ours = [rank["micro_batches"] for rank in found[f"evenkeel.{kind}"]]
    assert all(tokens.max() <= 96 for tokens in ours) and found[f"plain.{kind}"][0]["micro_batches"].max() > 300
    counts = [(tokens > 0).sum(1).tolist() for tokens in ours]
    assert all(count == counts[0] for count in counts) and len(set(counts[0])) > 1
    assert all(tokens.sum() < rank["micro_batches"].sum() for tokens, rank in zip(ours, found[f"plain.{kind}"]))  # less padding


@pytest.mark.parametrize("way", WRONG)
def test_the_comparison_finds_errors(found, way):
    assert difference(found[way][0], found["plain.grpo"][0], "gradient") > 1000 * RELATIVE


def test_settings_that_micro_batches_cannot_support_are_refused_on_all_ranks(found):
    texts = [rank["texts"].tolist() for rank in found["refused"]]
    assert any("above the cap of 40" in cap for cap, *_ in texts)
    assert all("tokens" in cap or "another rank cannot cut" in cap for cap, *_ in texts)
    for _, quantile, coefficient in texts:
        assert quantile.startswith("top_entropy_quantile: depends on a statistic of the whole batch")
        assert coefficient.startswith("entropy_coef: depends on a statistic of the whole batch")


def test_settings_that_the_trainer_decides_are_refused():
    from trl import GRPOTrainer

    for name, value in {"padded": False, "pad_to_multiple_of": 8, "balance": {"cost": "tokens"}}.items():
        with pytest.raises(evenkeel.InputError, match=f"{name}: is not a setting of GRPOTrainer"):
            balanced(GRPOTrainer, max_tokens=96, **{name: value})


def test_batches_with_images_are_refused():
    import torch

    from evenkeel._grpo import _rows_of

    ones = torch.ones(2, 3)
    batch = {"prompt_ids": ones, "prompt_mask": ones, "completion_ids": ones, "completion_mask": ones, "pixel_values": ones}
    with pytest.raises(evenkeel.InputError, match="input 'pixel_values': is not supported: only TRL's inputs for text"):
        _rows_of(batch, [0])


def test_deepspeed_is_refused():
    from types import SimpleNamespace

    from evenkeel._grpo import BalancedGRPOTrainer

    trainer = SimpleNamespace(model=SimpleNamespace(training=True), is_deepspeed_enabled=True)
    with pytest.raises(evenkeel.InputError, match="deepspeed: needs a fixed number of micro-batches per step"):
        BalancedGRPOTrainer.compute_loss(trainer, None, {})
