"""Trainers over the service have the losses of a plain loop."""

import json

import pytest

from jobs import run

torch = pytest.importorskip("torch")


def close(losses):
    return pytest.approx(losses, rel=1e-12, abs=0)


def test_ppo_over_padded_batches_has_the_loss_and_gradients_of_the_padded_batches():
    config = {"mesh": {"cp": 2}, "micro_batch": {"max_tokens": 48},
              "profiles": {"log_prob": {"micro_batch": {"max_tokens": 96}}, "update": {}}}
    for rank in run("padded_trainer.py", 2, over="torch", arguments=[json.dumps(config)]):
        assert rank["loss"] == close(rank["expected"]) and rank["gradients"] < 1e-12
