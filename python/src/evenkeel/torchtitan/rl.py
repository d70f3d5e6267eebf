"""The batcher of torchtitan's reinforcement learning, with rows packed and balanced by Evenkeel.

    from evenkeel.torchtitan.rl import BalancedBatcher

    own = config.batcher
    config.batcher = BalancedBatcher.Config(batch=own.batch, per_sample_pad_multiple=own.per_sample_pad_multiple)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torchtitan.experiments.rl.components.batcher import Batcher

from evenkeel.torchtitan import plan_rows

__all__ = ["BalancedBatcher"]


class BalancedBatcher(Batcher):
    """torchtitan's Batcher, but Evenkeel determines which samples share a row, and which rank and micro-batch gets it."""

    @dataclass(kw_only=True, slots=True)
    class Config(Batcher.Config):
        settings: dict[str, Any] = field(default_factory=dict)
        """Settings of the planner, as for evenkeel.plan: ``{"balance": {"cost": "flops-7b"}}``."""

    def __init__(self, config: Config, **others: Any) -> None:
        super().__init__(config, **others)
        self._settings = config.settings

    def _assign_training_samples_to_rows(self, training_samples: list[Any]) -> list[list[Any]]:
        """Returns the samples of each row, in the order in which Batcher distributes rows: to the ranks of each micro-batch in
        turn, once for each of its local_batch_size rows."""
        lengths = [self.num_tokens_to_pack(sample) for sample in training_samples]
        planned = plan_rows(lengths, self._dp_degree, self.seq_len, self._settings, multiple_of=self.local_batch_size)
        micro_batches = planned.num_micro_batches // self.local_batch_size
        return [
            [training_samples[index] for index in rank.micro_batches[micro_batch * self.local_batch_size + row].samples]
            for row in range(self.local_batch_size)
            for micro_batch in range(micro_batches)
            for rank in planned.ranks
        ]
