"""Trainers over the service have the losses of a plain loop: on any number of processes, after resuming on another number, in
parts of a torch job, and through the adapters for frameworks."""

import json
import random

import pytest

from jobs import run

torch = pytest.importorskip("torch")

import trainer

SAMPLES, BATCH = 60, 12


@pytest.fixture
def rollouts(tmp_path):
    """Returns a file of samples, and its content."""
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


@pytest.mark.parametrize("over, counts", [("mpi", (1, 3, 8)), ("torch", (8, 2, 1))])
def test_a_trainer_has_the_losses_of_a_plain_loop_wherever_it_resumes(rollouts, tmp_path, over, counts):
    path, lines = rollouts
    expected, results = trainer.plain_losses(lines, BATCHES), []
    for number, ranks in enumerate(counts):
        steps = 1 if number + 1 < len(counts) else len(BATCHES) - number
        of_ranks = run("trainer.py", ranks, over=over, arguments=[json.dumps(job(path)), tmp_path, steps])
        assert all(rank["losses"] == of_ranks[0]["losses"] for rank in of_ranks)
        for step in range(steps):
            assert sorted(i for rank in of_ranks for i in rank["samples"][step]) == BATCHES[number + step]
        results += of_ranks[0]["losses"]
    assert results == close(expected)
    assert expected[-1] < expected[0]  # the model learns


PARTS = {
    "neighbors": [([0, 1], {"mesh": {"cp": 2}}), ([2, 3], {})],
    "every other": [([0, 2], {"mesh": {"tp": 2}, "exchange": {"tp_copies": "shared"}}), ([1, 3], {"micro_batch": {"max_tokens": 40}})],
    "one alone": [([0, 1, 3], {"exchange": {"path": "alltoallv"}}), ([2], {})],
    "groups of their own": [([0, 1], {"mesh": {"cp": "flexible"}, "balance": {"meet": "step"}, "micro_batch": {"max_tokens_per_rank": 40}}),
                            ([2, 3], {"mesh": {"cp": "flexible"}, "balance": {"strategy": "grid"},
                                      "micro_batch": {"max_tokens_per_rank": 40}})],
}


@pytest.mark.parametrize("name", PARTS)
def test_two_parts_of_a_torch_job_have_services_of_their_own_at_once(rollouts, name):
    path, lines = rollouts
    parts = []
    for number, (ranks, sections) in enumerate(PARTS[name]):
        config = job(path, **sections)
        config["batch"] = {"global_batch": BATCH if number == 0 else SAMPLES // 3}  # the parts have different steps
        parts.append({"ranks": ranks, "config": config})
    results = run("subgroups.py", 4, over="torch", arguments=[json.dumps(parts)])
    for part in parts:
        size = part["config"]["batch"]["global_batch"]
        batches = [list(range(begin, begin + size)) for begin in range(0, SAMPLES, size)]
        for place, rank in enumerate(part["ranks"]):
            assert (results[rank]["place"], results[rank]["size"]) == (place, len(part["ranks"]))
            assert results[rank]["losses"] == close(trainer.plain_losses(lines, batches))
            assert "does not include this process" in results[rank]["refused"]


@pytest.mark.parametrize("sections, reduced", [
    ({"mesh": {"cp": 2}}, []), ({"mesh": {"tp": 2}}, ["per token"]),
    ({"mesh": {"cp": 2}, "batch": {"global_batch": BATCH, "mini_batches": 2}}, ["per token"]),
])
def test_megatrons_schedule_over_the_iterator_has_the_losses_of_a_plain_loop(rollouts, sections, reduced):
    path, lines = rollouts
    results = run("megatron_trainer.py", 4, over="torch", arguments=[json.dumps(job(path, **sections)), *reduced])
    updates = len(BATCHES) * sections.get("batch", {}).get("mini_batches", 1)
    batches = [sorted({i for rank in results for i in rank["samples"][update]}) for update in range(updates)]
    assert sorted(i for batch in batches for i in batch) == list(range(SAMPLES))
    for rank in results:
        assert rank["losses"] == close(trainer.plain_losses(lines, batches))


def test_ppo_over_padded_batches_has_the_loss_and_gradients_of_the_padded_batches():
    config = {"mesh": {"cp": 2}, "micro_batch": {"max_tokens": 48},
              "profiles": {"log_prob": {"micro_batch": {"max_tokens": 96}}, "update": {}}}
    for rank in run("padded_trainer.py", 2, over="torch", arguments=[json.dumps(config)]):
        assert rank["loss"] == close(rank["expected"]) and rank["gradients"] < 1e-12
