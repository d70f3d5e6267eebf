"""Trainers over the service have the losses of a plain loop, through the adapters for frameworks."""

import json
import random

import pytest

from jobs import run

torch = pytest.importorskip("torch")

import trainer

SAMPLES, BATCH = 60, 12


@pytest.fixture
def rollouts(tmp_path):
    """A file of samples, and what is in it."""
    drawn = random.Random(5)

    def tokens(most):
        return [drawn.randrange(1, 64) for _ in range(drawn.randint(1, most))]

    lines = [{"uid": i // 4, "prompt_ids": tokens(6), "response_ids": tokens(20)} for i in range(SAMPLES)]
    path = tmp_path / "rollouts.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return str(path), lines


def job(path, **sections):
    return {"source": {"kind": "jsonl", "path": path}, "batch": {"global_batch": BATCH}, "micro_batch": {"max_tokens": 64},
            "exchange": {"prefetch": 2}, **sections}


BATCHES = [list(range(begin, begin + BATCH)) for begin in range(0, SAMPLES, BATCH)]


def close(losses):
    return pytest.approx(losses, rel=1e-12, abs=0)


@pytest.mark.parametrize("sections, reduced", [
    ({"mesh": {"cp": 2}}, []), ({"mesh": {"tp": 2}}, ["per token"]),
    ({"mesh": {"cp": 2}, "batch": {"global_batch": BATCH, "mini_batches": 2}}, ["per token"]),
])
def test_megatrons_schedule_over_the_iterator_has_the_losses_of_a_plain_loop(rollouts, sections, reduced):
    path, lines = rollouts
    told = run("megatron_trainer.py", 4, over="torch", arguments=[json.dumps(job(path, **sections)), *reduced])
    updates = len(BATCHES) * sections.get("batch", {}).get("mini_batches", 1)
    batches = [sorted({i for rank in told for i in rank["samples"][update]}) for update in range(updates)]
    assert sorted(i for batch in batches for i in batch) == list(range(SAMPLES))
    for rank in told:
        assert rank["losses"] == close(trainer.plain_losses(lines, batches))


def test_ppo_over_padded_batches_has_the_loss_and_gradients_of_the_padded_batches():
    config = {"mesh": {"cp": 2}, "micro_batch": {"max_tokens": 48},
              "profiles": {"log_prob": {"micro_batch": {"max_tokens": 96}}, "update": {}}}
    for rank in run("padded_trainer.py", 2, over="torch", arguments=[json.dumps(config)]):
        assert rank["loss"] == close(rank["expected"]) and rank["gradients"] < 1e-12
