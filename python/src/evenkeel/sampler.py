"""A batch sampler that gives every data-parallel rank its balanced micro-batches, planned from lengths alone.

    >>> sampler = BalancedBatchSampler([5, 3, 4, 2], max_tokens=8, global_batch=4, ranks=2, rank=0, shuffle=False)
    >>> list(sampler)
    [[1, 2]]

Every rank plans the same steps with evenkeel.plan, so ranks do not communicate. torch is not imported; the samplers
have the methods that torch's DataLoader, torchdata's StatefulDataLoader and Accelerate call."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Union

import numpy as np
import numpy.typing as npt

from evenkeel._c import raise_error, refuse
from evenkeel._text import counted, describe_count
from evenkeel.config import Config, ConfigLike
from evenkeel.planning import StepPlan, plan

__all__ = ["BalancedBatchSampler", "StepSampler"]

Rank = Union[int, Literal["all"]]
State = dict[str, Any]


class BalancedBatchSampler:
    """Yields the index lists of one rank's micro-batches, for ``DataLoader(data, batch_sampler=...)``.

    Each step takes the next ``global_batch`` samples in the epoch's order and plans them over all ranks: no micro-batch
    exceeds ``max_tokens``, ranks get equal work, and all ranks get the same number of micro-batches. That number
    differs between steps: ``counts`` lists it, and ``steps`` is a sampler of whole steps.

    lengths             tokens of each sample of the dataset: a list, an array or a tensor
    max_tokens          the cap of a micro-batch, in tokens
    global_batch        samples per step over all ranks; the last step of an epoch may have fewer
    ranks               data-parallel ranks
    rank                this rank, or "all" for the micro-batches of ranks 0, 1, 2, ... in turn, the order that Accelerate
                        expects of a batch sampler that it distributes over processes itself
    padded              whether to pad the sequences of a micro-batch to one length, which the cap then counts; otherwise they are packed
    pad_to_multiple_of  the multiple to which that length is rounded up
    shuffle, seed       draw a new order for each epoch from (seed, epoch); otherwise keep the order of the dataset
    drop_last           leave out an epoch's last step if it has fewer than ``global_batch`` samples
    empty               "keep": a rank with fewer samples than other ranks have micro-batches gets empty lists, for which
                        evenkeel.collate makes micro-batches without loss; "error": such a step raises InputError
    config, sections    settings of the planner, as for evenkeel.plan: ``balance={"cost": "flops-7b"}``. Raises InputError for those that
                        contradict the arguments above, or under which ranks have different numbers of micro-batches

    The order depends only on the seed, the epoch and the number of samples, so any number of ranks trains the same steps. Each
    iteration begins at the start of the epoch, or once after load_state_dict at the loaded position; an iteration that reaches the end
    advances to the next epoch.

    Raises LimitError for a sample above the cap, InputError for a sample without tokens, and ConfigError for settings that do not
    fit, all before the first step.
    """

    batch_size = None  # tells Accelerate that the lists vary in size

    def __init__(
        self,
        lengths: Any,
        max_tokens: int,
        *,
        global_batch: int,
        ranks: int,
        rank: Rank,
        padded: bool = False,
        pad_to_multiple_of: int = 1,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        empty: str = "keep",
        config: ConfigLike = None,
        **sections: Any,
    ) -> None:
        self.lengths = _integers(lengths)
        self.max_tokens = _at_least(1, max_tokens, "max_tokens")
        self.global_batch = _at_least(1, global_batch, "global_batch")
        self.ranks = _at_least(1, ranks, "ranks")
        if rank != "all" and not 0 <= rank < ranks:
            refuse("rank", f"is {rank}, but {describe_count(ranks, 'rank')}", f'Pass {"0" if ranks == 1 else f"0 to {ranks - 1}"}, or "all"')
        self.rank = rank
        self.shuffle = shuffle
        self.seed = _at_least(0, seed, "seed")
        self.drop_last = drop_last
        if empty not in ("keep", "error"):
            refuse("empty", f"is {empty!r}", 'Pass "keep" or "error"')
        self.empty = empty
        self._config = _settings(ranks, max_tokens, padded, pad_to_multiple_of, config, sections)
        self._require_lengths()
        self._epoch = 0
        self._done = 0  # number of steps of the epoch that were delivered completely
        self._taken = 0  # number of index lists delivered of the next step
        self._loaded = False  # the next iteration starts at this position
        self._ordered: tuple[int, npt.NDArray[np.int64]] = (-1, np.empty(0, dtype=np.int64))
        self._planned: tuple[int, list[StepPlan]] = (-1, [])

    @property
    def num_steps(self) -> int:
        """Number of steps in an epoch."""
        whole, rest = divmod(len(self.lengths), self.global_batch)
        return whole + (rest > 0 and not self.drop_last)

    @property
    def counts(self) -> list[int]:
        """The number of one rank's micro-batches in each step of the current epoch. Plans the epoch."""
        return [plan.num_micro_batches for plan in self._plans()]

    @property
    def steps(self) -> StepSampler:
        """A sampler of whole steps, which shares this sampler's position."""
        return StepSampler(self)

    @property
    def epoch(self) -> int:
        """The epoch that the next iteration starts or continues."""
        return self._epoch

    @property
    def sampler(self) -> BalancedBatchSampler:
        """This sampler: Accelerate calls ``batch_sampler.sampler.set_epoch``."""
        return self

    def __len__(self) -> int:
        """Number of index lists that an iteration over the whole current epoch yields. Plans the epoch."""
        return sum(self.counts) * (self.ranks if self.rank == "all" else 1)

    def __iter__(self) -> Iterator[list[int]]:
        epoch, first, taken = self._begin_iteration()
        for step in range(first, self.num_steps):
            lists = self._index_lists(epoch, step)
            for index in range(taken, len(lists)):
                whole = index + 1 == len(lists)
                self._set_position(epoch, step + whole, 0 if whole else index + 1)
                yield lists[index]
            taken = 0
        self._set_position(epoch + 1, 0, 0)

    def plan(self, step: int) -> StepPlan:
        """Returns the plan of one step of the current epoch. Its sample i is ``indices(step)[i]`` of the dataset."""
        return self._plan(self._epoch, step)

    def indices(self, step: int) -> npt.NDArray[np.int64]:
        """Returns the samples of one step of the current epoch, over all ranks."""
        return self._indices(self._epoch, step)

    def set_epoch(self, epoch: int) -> None:
        """Moves to the start of an epoch. Keeps the position if it is the current epoch."""
        if epoch != self._epoch:
            self._set_position(_at_least(0, epoch, "epoch"), 0, 0)
            self._loaded = False

    def state_dict(self, step: int | None = None) -> State:
        """Returns the position after the last index list that was delivered, or after the first ``step`` steps of the epoch.

        A DataLoader with workers asks for index lists ahead of the trainer. Pass the number of trained steps there, or
        use StatefulDataLoader, which saves the state with each batch."""
        done, taken = (self._done, self._taken) if step is None else (step, 0)
        return {"epoch": self._epoch, "step": done, "micro_batch": taken, **self._identity(), **self._identity_inside(self._epoch, done, taken)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues after the position of ``state``. Raises InputError if the state belongs to other samples or settings.

        The number of ranks, the cap and other settings of the planner may differ, unless the position is inside a step.
        Ranks may share one state.
        """
        _require_equal(state, self._identity())
        if not 0 <= state["step"] <= self.num_steps:
            refuse("state_dict['step']", f"is {state['step']}, but an epoch has {counted(self.num_steps, 'step')}",
                   "Load what state_dict() returned; state_dict(step) takes a step of the epoch")
        _require_equal(state, self._identity_inside(state["epoch"], state["step"], state["micro_batch"]))
        self._set_position(state["epoch"], state["step"], state["micro_batch"])
        self._loaded = True

    def _begin_iteration(self) -> tuple[int, int, int]:
        """Returns the epoch, step and index list at which an iteration starts."""
        if not self._loaded:
            self._set_position(self._epoch, 0, 0)
        self._loaded = False
        return self._epoch, self._done, self._taken

    def _set_position(self, epoch: int, done: int, taken: int) -> None:
        self._epoch, self._done, self._taken = epoch, done, taken

    def _index_lists(self, epoch: int, step: int) -> list[list[int]]:
        """Returns this rank's index lists of one step."""
        plan, indices = self._plan(epoch, step), self._indices(epoch, step)
        by_rank = [[indices[m.samples].tolist() for m in rank.micro_batches] for rank in plan.ranks]
        if self.empty == "error":
            _require_samples(f"epoch {epoch}, step {step}", by_rank)
        if self.rank == "all":
            return [micro_batch for at_once in zip(*by_rank) for micro_batch in at_once]
        return by_rank[int(self.rank)]

    def _indices(self, epoch: int, step: int) -> npt.NDArray[np.int64]:
        if not 0 <= step < self.num_steps:
            refuse("step", f"is {step}, but an epoch has {counted(self.num_steps, 'step')}",
                   "Pass a step of the epoch; steps are counted from 0")
        if self._ordered[0] != epoch:
            # RandomState's numbers never change between versions of NumPy, unlike those of default_rng.
            random = np.random.RandomState([self.seed % 2**32, self.seed >> 32, epoch])
            count = len(self.lengths)
            self._ordered = epoch, random.permutation(count) if self.shuffle else np.arange(count)
        return self._ordered[1][step * self.global_batch : (step + 1) * self.global_batch]

    def _plans(self) -> list[StepPlan]:
        if self._planned[0] != self._epoch:
            self._planned = self._epoch, [self._plan(self._epoch, step) for step in range(self.num_steps)]
        return self._planned[1]

    def _plan(self, epoch: int, step: int) -> StepPlan:
        if self._planned[0] == epoch:
            return self._planned[1][step]
        return plan(self.lengths[self._indices(epoch, step)], config=self._config, step=epoch * self.num_steps + step)

    def _identity(self) -> State:
        """Returns everything that the order of the samples and the steps depends on."""
        return {
            "lengths": zlib.crc32(self.lengths.astype("<i8").tobytes()),
            "global_batch": self.global_batch,
            "shuffle": self.shuffle,
            "seed": self.seed,
            "drop_last": self.drop_last,
        }

    def _identity_inside(self, epoch: int, step: int, taken: int) -> State:
        """Returns what a position inside a step also depends on: the plan, and whether all ranks take turns."""
        return {"plan": self._plan(epoch, step).hash, "all_ranks": self.rank == "all"} if taken else {}

    def _require_lengths(self) -> None:
        if (self.lengths < 1).any():
            at = int(np.argmax(self.lengths < 1))
            refuse(f"lengths[{at}]", f"is {self.lengths[at]}, but a sample has at least 1 token", "Leave the sample out of the data set")
        if (self.lengths > self.max_tokens).any():
            at = int(np.argmax(self.lengths > self.max_tokens))
            raise_error(
                "limit",
                f"lengths[{at}]",
                f"is {self.lengths[at]}, above max_tokens, {self.max_tokens}",
                f"Raise max_tokens to at least {self.lengths.max()}, or truncate or leave out the sample",
            )
        if self.num_steps == 0:
            refuse(
                "global_batch",
                f"is {self.global_batch}, but the data set has only {counted(len(self.lengths), 'sample')}, so an epoch would have no steps",
                "Lower global_batch, or pass drop_last=False",
            )
        # Reports incompatible settings, and a cap below the aligned length, before the first step.
        plan([int(self.lengths.max())], config=self._config)


class StepSampler:
    """Yields whole steps: for each, the list of this rank's micro-batches, each a list of indices.

    It moves the position of the sampler it comes from. Its items fit ``DataLoader(MicroBatches(data), batch_sampler=...)``
    with a collator of whole steps: evenkeel.collate.
    """

    batch_size = None

    def __init__(self, sampler: BalancedBatchSampler) -> None:
        self.micro_batches = sampler

    @property
    def drop_last(self) -> bool:
        return self.micro_batches.drop_last

    @property
    def sampler(self) -> StepSampler:
        return self

    def __len__(self) -> int:
        return self.micro_batches.num_steps

    def __iter__(self) -> Iterator[list[list[int]]]:
        sampler = self.micro_batches
        epoch, first, taken = sampler._begin_iteration()
        for step in range(first, sampler.num_steps):
            lists = sampler._index_lists(epoch, step)
            sampler._set_position(epoch, step + 1, 0)
            yield lists[taken:]
            taken = 0
        sampler._set_position(epoch + 1, 0, 0)

    def set_epoch(self, epoch: int) -> None:
        self.micro_batches.set_epoch(epoch)

    def state_dict(self, step: int | None = None) -> State:
        return self.micro_batches.state_dict(step)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.micro_batches.load_state_dict(state)


def _settings(
    ranks: int, max_tokens: int, padded: bool, pad_to_multiple_of: int, config: ConfigLike, sections: Mapping[str, Any]
) -> Config:
    if pad_to_multiple_of != 1 and not padded:
        refuse("pad_to_multiple_of", f"is {pad_to_multiple_of}, but sequences are packed, not padded", "Leave it out, or pass padded=True")
    given, defaults = Config.of(config, **sections).settings(), Config().settings()
    if given["mesh.cp"] == "flexible":
        refuse("mesh.cp", "is flexible, but a sampler gives whole samples to fixed ranks", "Leave it out, or pass a number")
    # The sampler's requirements in addition to the arguments: equally many micro-batches on every rank, and one update
    # per step.
    needed: dict[str, dict[str, Any]] = {
        "mesh": {"dp": ranks},
        "batch": {"mini_batches": 1},
        "micro_batch": {
            "max_tokens": max_tokens,
            "mode": "padded" if padded else "packed",
            **({"length_round": pad_to_multiple_of} if padded else {}),
            "equal_counts": "always",
        },
    }
    for section, keys in needed.items():
        for name, value in keys.items():
            key = f"{section}.{name}"
            if given[key] != value and (name in sections.get(section, {}) or given[key] != defaults[key]):
                by_argument = key not in ("batch.mini_batches", "micro_batch.equal_counts")
                refuse(key, f"is {given[key]}, but this sampler requires {value}",
                       "Leave it out" + (", or change the argument of the sampler" if by_argument else ""))
    merged = {section: {**sections.get(section, {}), **keys} for section, keys in needed.items()}
    return Config.of(config, **{**sections, **merged})


def _require_samples(where: str, by_rank: Sequence[Sequence[Sequence[int]]]) -> None:
    for rank, micro_batches in enumerate(by_rank):
        for index, micro_batch in enumerate(micro_batches):
            if not micro_batch:
                number = counted(len(micro_batches), "micro-batch", "micro-batches")
                refuse(
                    f"{where}, rank {rank}",
                    f"micro-batch {index} has no samples; the rank has {number}, counted from 0",
                    "Raise the number of samples per step or max_tokens, drop the last step if it is that one, or use a collator of "
                    'evenkeel.collate (without a Trainer, also pass empty="keep")',
                )


def _integers(lengths: Any) -> npt.NDArray[np.int64]:
    array = np.asarray(lengths)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu":
        refuse("lengths", f"has the shape {list(array.shape)} and the dtype {array.dtype}", "Pass one whole number per sample")
    return array.astype(np.int64)


def _at_least(least: int, value: int, name: str) -> int:
    if isinstance(value, bool) or int(value) != value or value < least:
        refuse(name, f"is {value!r}", f"Pass a whole number of at least {least}")
    return int(value)


def _require_equal(state: Mapping[str, Any], expected: State) -> None:
    for name, value in expected.items():
        if state.get(name) != value:
            refuse(
                f"state_dict[{name!r}]",
                f"is {state.get(name)!r}, but this sampler has {value!r}" + (" (checksums)" if name in ("lengths", "plan") else ""),
                "Load the state into a sampler of the same data and settings, or start over",
            )
