"""verl's PPOTrainer balances every mini-batch if its own method uses Evenkeel's partitions."""

import numpy as np
import pytest
from omegaconf import OmegaConf
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.trainer_base import PPOTrainer
from verl.utils.seqlen_balancing import calculate_workload

import evenkeel.verl

RANKS, PROMPTS, RESPONSES, MINI_BATCHES = 4, 32, 8, 4
SAMPLES = PROMPTS * RESPONSES


@pytest.fixture
def installed():
    original = PPOTrainer._balance_batch
    evenkeel.verl.install_in_trainer()
    evenkeel.verl.install_in_trainer()  # a second call changes nothing
    yield
    PPOTrainer._balance_batch = original


class Workers:
    """Workers of the actor as the trainer sees them: each has a data-parallel rank, which it shares with one other worker."""

    _dispatch_info = {"actor": [rank // 2 for rank in range(2 * RANKS)]}


def trainer(**actor):
    concrete = type("Trainer", (PPOTrainer,), dict.fromkeys(PPOTrainer.__abstractmethods__))
    made = concrete.__new__(concrete)
    made.actor_rollout_wg, made.use_critic, made.global_steps = Workers(), False, 1
    made.tokenizer = type("Tokenizer", (), {"eos_token_id": 0})
    settings = {"ppo_mini_batch_size": PROMPTS // MINI_BATCHES, "shuffle": False, **actor}
    made.config = OmegaConf.create({"actor_rollout_ref": {"actor": settings, "rollout": {"n": RESPONSES}}, "trainer": {"critic_warmup": 0}})
    return made


def batch():
    lengths = np.random.RandomState(2).lognormal(6, 1, size=SAMPLES).astype(int).clip(1, 4096)
    return KVBatchMeta(keys=[str(index) for index in range(SAMPLES)], tags=[{"seq_len": int(n)} for n in lengths], partition_id="train")


def balance_batch(**actor):
    """Returns the samples that workers get and their work, by rank and mini-batch, and the metrics."""
    metrics = {}
    found = trainer(**actor)._balance_batch(batch(), metrics)
    keys = np.array([int(key) for key in found.keys]).reshape(RANKS, MINI_BATCHES, -1)
    assert sorted(keys.flatten()) == list(range(SAMPLES))
    lengths = np.array([tag["seq_len"] for tag in found.tags])
    assert lengths.tolist() == [batch().tags[index]["seq_len"] for index in keys.flatten()]
    return keys, calculate_workload(lengths).reshape(RANKS, MINI_BATCHES, -1).sum(2), metrics


def time_over_mean(work):
    """Returns the time of all mini-batches relative to the mean work: ranks wait for each other after every mini-batch."""
    return work.max(0).sum() / work.mean(0).sum()


def test_every_mini_batch_is_even(installed):
    keys, work, metrics = balance_batch()
    assert time_over_mean(work) < 1.001
    assert metrics["global_seqlen/balanced_max"] >= metrics["global_seqlen/mean"] > 0
    for mini_batch in range(MINI_BATCHES):
        first = mini_batch * SAMPLES // MINI_BATCHES
        assert sorted(keys[:, mini_batch].flatten()) == list(range(first, first + SAMPLES // MINI_BATCHES))


def test_verls_own_partitions_are_even_only_over_all_mini_batches():
    _, work, _ = balance_batch()
    assert time_over_mean(work.sum(1, keepdims=True)) < 1.001 and time_over_mean(work) > 1.1


def test_an_actor_that_shuffles_gets_even_ranks(installed):
    _, work, _ = balance_batch(shuffle=True)
    assert time_over_mean(work.sum(1, keepdims=True)) < 1.001


def test_partitions_that_are_not_whole_are_refused():
    with pytest.raises(evenkeel.InputError, match="lengths: has 6 samples, which is not a multiple of 4, the product of 2 mini-batches and 2 ranks. Change"):
        evenkeel.verl.partitions_of_mini_batches([1] * 6, 2, 2)
