"""Packs and balances rows of torchtitan's Trainer over all data-parallel ranks.

    from evenkeel.torchtitan import BalancedDataLoader

    config.dataloader = BalancedDataLoader.Config(samples=my_samples, global_batch_size=config.training.global_batch_size)

torchtitan trains rows of ``training.seq_len`` tokens, the same number on every rank and in every step. The loader fills the rows
of each step with whole samples: as many of the next samples as fit, with equal work in all rows. docs/torchtitan.md has the
details, and evenkeel.torchtitan.rl the batcher for torchtitan's reinforcement learning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import torch
import tyro
from torchtitan.components.dataloader import BaseDataLoader
from torchtitan.components.loss import IGNORE_INDEX

from evenkeel._c import raise_error, refuse
from evenkeel._text import counted
from evenkeel.collate import sequence_of
from evenkeel.planning import StepPlan, plan

__all__ = ["BalancedDataLoader", "plan_rows"]

Indices = npt.NDArray[np.int64]


def plan_rows(lengths: Sequence[int] | Indices, ranks: int, seq_len: int, settings: Mapping[str, Any], **counts: int) -> StepPlan:
    """Plans rows of at most ``seq_len`` tokens, the same number on each rank: the micro-batches of the plan.

    ``settings`` are sections as for evenkeel.plan, except mesh, batch and micro_batch, which torchtitan determines. ``counts``
    are ``min_count`` and ``multiple_of`` of the section micro_batch.
    """
    for section in {"mesh", "batch", "micro_batch"} & settings.keys():
        refuse(f"settings[{section!r}]", "is decided by torchtitan's own configuration", "Leave it out")
    sections: dict[str, Any] = {**settings, "balance": {"strategy": "grid", **settings.get("balance", {})}}
    return plan(lengths, mesh={"dp": ranks}, micro_batch={"max_tokens": seq_len, **counts}, **sections)


class BalancedDataLoader(BaseDataLoader):
    """A data loader for torchtitan. All ranks plan the same steps from the lengths of the samples, without communication."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):
        samples: Annotated[Callable[[Any], Any], tyro.conf.Suppress]
        """Takes the tokenizer and returns the dataset: a sequence of mappings with ``input_ids`` and, optionally, ``labels``,
        each at its own token, -100 if it carries no loss."""

        global_batch_size: int = -1
        """training.global_batch_size: the rows of an optimizer step on all ranks. -1: the rows of one batch on all ranks."""

        shuffle: bool = True
        """Whether to draw a new order of the samples for each epoch."""

        seed: int = 0
        """The seed of the orders of all epochs."""

        infinite: bool = True
        """Whether to continue with the next epoch. The last step of an epoch may have rows with only padding."""

        settings: dict[str, Any] = field(default_factory=dict)
        """Settings of the planner, as for evenkeel.plan: ``{"balance": {"cost": "flops-7b"}}``."""

    def __init__(
        self, config: Config, *, dp_world_size: int, dp_rank: int, tokenizer: Any, seq_len: int, local_batch_size: int, **_: Any
    ) -> None:
        rows = config.global_batch_size if config.global_batch_size > 0 else dp_world_size * local_batch_size
        if rows % (dp_world_size * local_batch_size) != 0:
            refuse(
                "global_batch_size", f"is {rows}, which is not a multiple of {dp_world_size * local_batch_size} "
                f"({counted(dp_world_size, 'rank')} with batches of {counted(local_batch_size, 'row')})",
                "Pass training.global_batch_size, and set that to such a multiple",
            )
        self.config, self.ranks, self.rank, self.seq_len = config, dp_world_size, dp_rank, seq_len
        self.rows, self.batch_size = rows // dp_world_size, local_batch_size
        self.padding = getattr(tokenizer, "eos_id", None) or 0
        self.samples = config.samples(tokenizer)
        self.lengths = np.array([len(sample["input_ids"]) - 1 for sample in self.samples], dtype=np.int64)
        self._require_lengths()
        self._epoch = 0
        self._first = 0  # first sample of the next step, or of the step in progress
        self._taken = 0  # number of batches delivered of the step in progress

    def __iter__(self) -> Iterator[tuple[dict[str, torch.Tensor], torch.Tensor]]:
        while True:
            order = self._order()
            while self._first < len(order):
                rows, last = self._step(order)
                batches = [rows[at : at + self.batch_size] for at in range(0, self.rows, self.batch_size)]
                for batch in batches[self._taken :]:
                    self._taken += 1
                    if self._taken == len(batches):
                        self._first, self._taken = last, 0
                    yield self._collate(batch)
            self._epoch, self._first = self._epoch + 1, 0
            if not self.config.infinite:
                return

    def state_dict(self) -> dict[str, Any]:
        """Returns the position, equal on all ranks. After a whole step, a loader with other numbers of ranks and rows can continue from it."""
        state = {"epoch": self._epoch, "first": self._first, "taken": self._taken, "samples": len(self.lengths)}
        state.update(seed=self.config.seed, shuffle=self.config.shuffle)
        return {**state, "ranks": self.ranks, "rows": self.rows, "seq_len": self.seq_len} if self._taken else state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        if not state_dict:  # torchtitan may pass an empty state
            return
        for name in ("epoch", "first", "taken"):
            if name not in state_dict:
                refuse("state_dict", f"has no {name!r}", "Load a state that this loader's state_dict() returned")
        before = self._epoch, self._first, self._taken
        self._epoch, self._first, self._taken = (int(state_dict[name]) for name in ("epoch", "first", "taken"))
        for name, value in self.state_dict().items():
            if state_dict.get(name) != value:
                self._epoch, self._first, self._taken = before
                in_step = " on as many ranks, since it was saved in the middle of a step" if name in ("ranks", "rows", "seq_len") else ""
                refuse(
                    f"state_dict[{name!r}]", f"is {state_dict.get(name)!r}, but this loader has {value!r}",
                    f"Load the state into a loader of the same data and settings{in_step}, or start over",
                )

    def _order(self) -> Indices:
        count = len(self.lengths)
        # RandomState's numbers never change between versions of NumPy.
        return np.random.RandomState([self.config.seed, self._epoch]).permutation(count) if self.config.shuffle else np.arange(count)

    def _step(self, order: Indices) -> tuple[list[Indices], int]:
        """Returns the samples of each row of this rank in the step at _first, and the end of the step in the order."""
        left = order[self._first :]
        fewest, planned = 0, None
        most = int(np.searchsorted(np.cumsum(self.lengths[left]), self.ranks * self.rows * self.seq_len, side="right"))
        count = most  # usually, rows can be found for all samples whose tokens fit
        while fewest < most:
            tried = plan_rows(self.lengths[left[:count]], self.ranks, self.seq_len, self.config.settings, min_count=self.rows)
            if tried.num_micro_batches == self.rows:
                fewest, planned = count, tried
            else:
                most = count - 1
            count = (fewest + most + 1) // 2
        assert planned is not None  # a single sample always fits
        return [left[row.samples] for row in planned.ranks[self.rank].micro_batches], self._first + fewest

    def _collate(self, rows: Sequence[Indices]) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        """Converts rows to the form of torchtitan's own datasets: labels at the rows that predict them, positions from 0 in each
        sample and in the padding."""
        shape = (len(rows), self.seq_len)
        tokens, labels = np.full(shape, self.padding, dtype=np.int64), np.full(shape, IGNORE_INDEX, dtype=np.int64)
        positions = np.zeros(shape, dtype=np.int64)
        with_labels = "labels" in self.samples[0]
        for row, indices in enumerate(rows):
            at = 0
            for index in map(int, indices):
                own, targets = sequence_of(self.samples[index], f"samples[{index}]", with_labels)
                end = at + len(own) - 1
                tokens[row, at:end], labels[row, at:end], positions[row, at:end] = own[:-1], targets[1:], np.arange(end - at)
                at = end
            positions[row, at:] = np.arange(self.seq_len - at)
        return {"input": torch.from_numpy(tokens), "positions": torch.from_numpy(positions)}, torch.from_numpy(labels)

    def _require_lengths(self) -> None:
        for at in np.flatnonzero((self.lengths < 1) | (self.lengths > self.seq_len))[:1]:
            where, tokens = f"samples[{at}]", self.lengths[at] + 1
            if tokens < 2:
                refuse(where, f"has {counted(tokens, 'token')}, but at least 2 are required to predict one",
                       "Leave the sample out of the data set")
            raise_error(
                "limit", where, f"has {counted(tokens, 'token')}; a row takes at most {self.seq_len + 1}, of which the last is only predicted",
                f"Raise training.seq_len to at least {self.lengths.max()}, or truncate or leave out the sample",
            )
        if len(self.lengths) == 0:
            refuse("samples", "returned an empty data set", "Return a data set with samples")
