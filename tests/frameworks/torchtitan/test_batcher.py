"""With Evenkeel's rows, the batcher of torchtitan's reinforcement learning gives the loss and the gradients of its own rows, and needs no more
rows.

The package torchtitan.experiments.rl imports vLLM, which needs a GPU, so its modules are imported without the package's __init__.
"""

import pathlib
import sys
import types

import numpy as np
import pytest
import torch
import torchtitan.experiments

import train

package = types.ModuleType("torchtitan.experiments.rl")
package.__path__ = [str(pathlib.Path(torchtitan.experiments.__path__[0]) / "rl")]
sys.modules[package.__name__] = package

from torchtitan.experiments.rl.components.batcher import BatchConfig, Batcher
from torchtitan.experiments.rl.losses.grpo import GRPOLoss
from torchtitan.experiments.rl.types import RolloutTurnID, TrainingSample, TrainingSampleGroup

from evenkeel.torchtitan.rl import BalancedBatcher

GROUPS, RANKS = 8, 2


def groups():
    random = np.random.RandomState(6)
    for group, texts in enumerate(np.array_split(np.arange(train.SAMPLES), GROUPS)):
        samples = []
        for rollout in texts:
            prompt, response = train.make_texts()[rollout]
            samples.append(
                TrainingSample(
                    min_policy_version=1, max_policy_version=1, rollout_id=RolloutTurnID(group, int(rollout), 0),
                    token_ids=prompt + response, loss_mask=[False] * len(prompt) + [True] * len(response),
                    logprobs=[0.0] * len(prompt) + (-7.6 + 0.2 * random.randn(len(response))).tolist(),
                    advantage=[0.0] * len(prompt) + [float(random.rand())] * len(response),
                )
            )
        yield TrainingSampleGroup(group_id=group, training_samples=samples, metrics=[])


def batch_of(kind, rows=2):
    config = kind.Config(batch=BatchConfig(local_batch_size=rows, seq_len=train.SEQ_LEN))
    batcher = config.build(num_prompts_per_train_step=GROUPS, dp_degree=RANKS, pad_id=train.EOS)
    return [batcher.add_training_samples(training_sample_group=group) for group in groups()][-1]


def train_step(batch, shift=0):
    """Returns loss and gradient of a step, summed over micro-batches and ranks as by torchtitan's PolicyTrainer."""
    torch.manual_seed(3)
    model = train.tiny_llama().model.build()
    model.init_weights(buffer_device=None)
    total, loss_fn = 0.0, GRPOLoss.Config().build()
    for micro_batch in sum(batch.microbatches, []):
        output = model(micro_batch.token_ids, attention_masks=model.get_attention_masks(micro_batch.positions), positions=micro_batch.positions)
        loss, _ = loss_fn(
            output, micro_batch.labels, batch.num_global_valid_tokens, generator_logprobs=micro_batch.generator_logprobs,
            advantages=micro_batch.advantages.roll(shift, 1), loss_mask=micro_batch.loss_mask,
        )
        loss.backward()
        total += float(loss.detach())
    return total, torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


@pytest.fixture(scope="module")
def expected():
    return train_step(batch_of(Batcher))


def differences(found, expected):
    return abs(found[0] - expected[0]) / abs(expected[0]), float((found[1] - expected[1]).norm() / expected[1].norm())


def test_loss_and_gradients_are_those_of_torchtitans_own_rows(expected):
    assert max(differences(train_step(batch_of(BalancedBatcher)), expected)) <= 1e-6


def test_the_comparison_finds_advantages_that_are_one_row_late(expected):
    assert min(differences(train_step(batch_of(BalancedBatcher), shift=1), expected)) > 1e-4


@pytest.mark.parametrize("rows", [1, 2])
def test_micro_batches_are_no_more_than_torchtitans_and_more_even(rows):
    of_both = [batch_of(kind, rows) for kind in (BalancedBatcher, Batcher)]
    ours, own = ([[int(part.loss_mask.sum()) for part in ranks] for ranks in batch.microbatches] for batch in of_both)
    assert len(ours) < len(own) and all(len(ranks) == RANKS for ranks in ours)
    assert np.sum(ours) == np.sum(own) == of_both[0].num_global_valid_tokens == of_both[1].num_global_valid_tokens
    tokens = np.array([[int(part.positions.eq(0).sum()) for part in ranks] for ranks in of_both[0].microbatches])
    assert (tokens > 0).all()
    assert of_both[0].min_policy_versions == of_both[1].min_policy_versions
