"""Plans a step: assigns samples to data-parallel ranks and micro-batches."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

from evenkeel import _arrays, _c
from evenkeel import _prototypes as c
from evenkeel._c import lib
from evenkeel._text import counted, describe_count
from evenkeel.config import Config, ConfigLike
from evenkeel.packing import CpGroup, PackedLayout
from evenkeel.prefix import PackedTreeLayout, PrefixTree

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]

__all__ = ["DpRankPlan", "MicroBatchLoss", "MicroBatchPlan", "StepPlan", "losses_of", "plan"]


_PLACES: dict[str, int] = {}  # indices of a plan's arrays by name


class Quality(TypedDict):
    """How balanced a plan is."""

    dp_max_over_mean_before: float
    dp_max_over_mean: float
    micro_batch_max_over_mean: float
    step_max_over_mean: float
    waiting_once: float
    waiting_every_micro_batch: float


class MicroBatchLoss:
    """The weights of one micro-batch in the loss of its mini-batch."""

    __slots__ = ("_token_weights", "_scale", "_mean_weight")

    def __init__(self, token_weights: Float64s, scale: float, mean_weight: float) -> None:
        self._token_weights, self._scale, self._mean_weight = token_weights, scale, mean_weight

    @property
    def token_weights(self) -> Float64s:
        """The weight of each loss token, per sample: float64."""
        return self._token_weights.copy()

    @property
    def scale(self) -> float:
        """The factor for the sum of weight * loss with which the trainer's own means over micro-batches and DP ranks give
        exactly the loss of the whole mini-batch."""
        return self._scale

    @property
    def mean_weight(self) -> float:
        """The factor for the micro-batch's own mean instead, for trainers that compute local means."""
        return self._mean_weight


class MicroBatchPlan:
    """One micro-batch of a plan: its samples, sizes and weights.

    Empty micro-batches have no samples and no weight, and are laid out as one filler sequence. They exist so that all DP
    ranks have the same number of micro-batches.
    """

    __slots__ = ("_plan", "_rank", "_index", "_at")

    def __init__(self, plan: StepPlan, rank: int, index: int) -> None:
        self._plan, self._rank, self._index = plan, rank, index
        self._at = int(plan._arrays["rank_offsets"][rank]) + index

    def _sample_values(self, name: str) -> Any:
        begin, end = self._plan._arrays["sample_offsets"][self._at : self._at + 2]
        return self._plan._arrays[name][begin:end].copy()

    def _number(self, name: str) -> int:
        return int(self._plan._arrays[name][self._at])

    @property
    def samples(self) -> Int64s:
        """Positions in the input lengths, in packed order: int64."""
        return self._sample_values("samples")

    @property
    def dp_rank(self) -> int:
        return self._rank

    @property
    def index(self) -> int:
        """Its index among the micro-batches of its DP rank."""
        return self._index

    @property
    def tokens(self) -> int:
        """True tokens; shared tokens count once."""
        return self._number("tokens")

    @property
    def aligned_tokens(self) -> int:
        """Tokens after alignment or padding: what micro_batch.max_tokens limits."""
        return self._number("aligned_tokens")

    @property
    def cost(self) -> int:
        """The work in units of the cost model."""
        return self._number("cost")

    @property
    def padded_length(self) -> int:
        """The padded length of every sequence over the whole CP group; 0 if each sequence is aligned separately."""
        return self._number("padded_length")

    @property
    def mini_batch(self) -> int:
        """The optimizer update to which it belongs."""
        return self._number("mini_batch")

    @property
    def context(self) -> tuple[int, int]:
        """The ranks that run it: the first one's position, dp * cp's size + cp (with mesh.cp: flexible, its DP rank), and the
        number of ranks."""
        return self._number("context_first"), self._number("context_size")

    @property
    def empty(self) -> bool:
        return len(self) == 0

    @property
    def token_weights(self) -> Float64s:
        """For each sample, the weight of each of its loss tokens. The loss of the whole mini-batch is the sum of
        weight * loss over all tokens of all micro-batches: float64."""
        return self._sample_values("token_weights")

    @property
    def scale(self) -> float:
        """The factor for that sum with which the trainer's own means over micro-batches and DP ranks give exactly the loss
        of the whole mini-batch."""
        return float(self._plan._arrays["scale"][self._at])

    @property
    def mean_weight(self) -> float:
        """The factor for the micro-batch's own mean instead, for trainers that compute local means."""
        return float(self._plan._arrays["mean_weight"][self._at])

    @property
    def prompt_lengths(self) -> Int64s:
        """Prompt tokens of each sample: int64."""
        return self._sample_values("prompts")

    def _layout(self) -> dict[str, Any]:
        return _arrays.named_arrays(lib.evenkeel_plan_layout, self._plan._handle, self._at)

    def _segments(self, found: dict[str, Any]) -> PackedLayout:
        cp = self._plan.cp
        if found["cp_size"] != cp.size:
            cp = CpGroup(found["cp_size"], cp.layout)
        return PackedLayout._of(cp, found["cu_seqlens"], found["cu_seqlens_padded"], found["alignment"], found["max_seqlen"])

    def tree(self) -> PackedTreeLayout | None:
        """Returns the PackedTreeLayout of samples that share prefixes, whose segments form the layout; otherwise None."""
        found = self._layout()
        return PackedTreeLayout._of(PrefixTree._of(found), self._segments(found)) if "parents" in found else None

    def layout(self) -> PackedLayout:
        """Returns the PackedLayout of its tensors: one sequence per sample, or the segments of samples that share prefixes; one
        filler sequence if there are no tokens."""
        return self._segments(self._layout())

    def __len__(self) -> int:
        begin, end = self._plan._arrays["sample_offsets"][self._at : self._at + 2]
        return int(end - begin)

    def __repr__(self) -> str:
        return f"MicroBatchPlan({len(self)} samples, {self.tokens} tokens)"


class DpRankPlan:
    """The share of one DP rank in a step, over all its mini-batches."""

    __slots__ = ("_plan", "_rank", "_range")

    def __init__(self, plan: StepPlan, rank: int) -> None:
        self._plan, self._rank = plan, rank
        self._range = slice(*plan._arrays["rank_offsets"][rank : rank + 2].tolist())

    @property
    def dp_rank(self) -> int:
        return self._rank

    @property
    def micro_batches(self) -> list[MicroBatchPlan]:
        """Its MicroBatchPlans, mini-batch by mini-batch."""
        return [MicroBatchPlan(self._plan, self._rank, m) for m in range(len(self))]

    @property
    def samples(self) -> Int64s:
        """Its samples in the order of its micro-batches: int64."""
        bounds = self._plan._arrays["sample_offsets"]
        return self._plan._arrays["samples"][bounds[self._range.start] : bounds[self._range.stop]].copy()

    def _sum(self, name: str) -> int:
        return int(self._plan._arrays[name][self._range].sum())

    @property
    def tokens(self) -> int:
        return self._sum("tokens")

    @property
    def aligned_tokens(self) -> int:
        return self._sum("aligned_tokens")

    @property
    def cost(self) -> int:
        return self._sum("cost")

    @property
    def lower_bound(self) -> int:
        """A lower bound on the number of micro-batches into which its samples can be packed under the limits."""
        return int(self._plan._arrays["lower_bound"][self._rank])

    def __len__(self) -> int:
        return int(self._range.stop - self._range.start)

    def __getitem__(self, micro_batch: int) -> MicroBatchPlan:
        return MicroBatchPlan(self._plan, self._rank, _arrays.checked_index(micro_batch, len(self), "micro-batch"))

    def __repr__(self) -> str:
        return f"DpRankPlan(dp_rank {self._rank}, {len(self)} micro-batches, {self.tokens} tokens)"


class StepPlan:
    """A whole step: every DP rank's micro-batches.

    ``plan[r]`` is the part of DP rank r, ``len(plan)`` is the number of DP ranks. Two plans are equal if every
    micro-batch has the same samples in the same order."""

    __slots__ = ("_handle", "_arrays", "_cp")

    def __init__(self, handle: _arrays.Handle) -> None:
        self._handle = handle
        self._arrays = _arrays.LazyArrays(lib.evenkeel_plan_arrays(handle), handle, _PLACES)
        self._cp = CpGroup(self._number("cp_size"), "zigzag" if self._number("cp_layout") == c.EVENKEEL_ZIGZAG else "contiguous")

    def __len__(self) -> int:
        return len(self._arrays["lower_bound"])

    def __getitem__(self, dp_rank: int) -> DpRankPlan:
        return DpRankPlan(self, _arrays.checked_index(dp_rank, len(self), "DP rank"))

    @property
    def ranks(self) -> list[DpRankPlan]:
        """The plans of all DP ranks."""
        return [DpRankPlan(self, r) for r in range(len(self))]

    def _number(self, name: str) -> int:
        return int(self._arrays[name])

    @property
    def num_samples(self) -> int:
        return self._number("num_samples")

    @property
    def num_tokens(self) -> int:
        return self._number("num_tokens")

    @property
    def num_micro_batches(self) -> int:
        """Number of micro-batches of each DP rank."""
        return self._number("num_micro_batches")

    @property
    def counts(self) -> list[int]:
        """The number of micro-batches in each mini-batch, as a list."""
        return self._arrays["counts"].tolist()

    @property
    def lower_bound(self) -> int:
        """A lower bound on the number of micro-batches per DP rank with this assignment."""
        return int(self._arrays["lower_bound"].max(initial=0))

    @property
    def alignment(self) -> int:
        """The multiple to which sequence lengths are rounded up, in tokens."""
        return self._number("alignment")

    @property
    def cp(self) -> CpGroup:
        """The context-parallel group."""
        return self._cp

    @property
    def step(self) -> int:
        return self._number("step")

    @property
    def dp_rank_of_sample(self) -> Int64s:
        """The DP rank of each sample: [num_samples] int64."""
        owners = np.zeros(self.num_samples, np.int64)
        for rank in self.ranks:
            owners[rank.samples] = rank.dp_rank
        return owners

    @property
    def quality(self) -> Quality:
        """Balance metrics. *_max_over_mean: 1 is perfect; waiting_*: the fraction of the step for which an average DP rank
        waits for the slowest, 0 is perfect."""
        before, dp, micro_batch, step, once, every_micro_batch = self._arrays["quality"].tolist()
        return {"dp_max_over_mean_before": before, "dp_max_over_mean": dp, "micro_batch_max_over_mean": micro_batch,
                "step_max_over_mean": step, "waiting_once": once, "waiting_every_micro_batch": every_micro_batch}

    @property
    def hash(self) -> int:
        """A 64-bit hash that is equal for equal plans on every machine."""
        return self._number("hash") % 2**64

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StepPlan) and bool(lib.evenkeel_plan_equal(self._handle, other._handle))

    def __hash__(self) -> int:
        return hash(self.hash)

    def __repr__(self) -> str:
        return f"StepPlan({self.num_samples} samples on {len(self)} DP ranks, {self.num_micro_batches} micro-batches each)"


def plan(
    lengths: Any = None,
    *,
    prompts: Any = None,
    responses: Any = None,
    groups: Iterable[Any] | None = None,
    loss_tokens: Any = None,
    tokens: Sequence[Any] | None = None,
    config: ConfigLike = None,
    profile: str = "",
    ranks: int | None = None,
    step: int = 0,
    **sections: Any,
) -> StepPlan:
    """Plans a step for all data-parallel ranks, with the same result as in a job with that many ranks.

    Samples are given by their lengths in tokens, one number per sample: a list, an integer array or a tensor. Pass
    ``lengths`` if all tokens are response tokens, otherwise ``prompts`` and ``responses``, or ``lengths`` and
    ``prompts``.

    groups       the prompt of each sample: a uid, a number or any other dict key. prompt-mean averages over prompts, and
                 samples of one prompt can share tokens by ``prefix``
    loss_tokens  number of tokens that carry loss by your own mask; -1: the sample's response tokens
    tokens       each sample's tokens; only needed with ``prefix={"share": "tree"}``
    config       a Config, a mapping, or the path of a YAML file; ``sections`` change it, such as
                 ``mesh={"dp": 8}, micro_batch={"max_tokens": 16384}``
    profile      the name of one of its profiles
    ranks        number of ranks in the world, if mesh.dp is auto
    step         the number of the step, which seeds its random choices

    Deterministic: every process that plans from equal arguments has an equal plan (compare ``plan.hash``). Raises
    ConfigError for settings that do not fit together, LimitError for a sample above micro_batch.max_tokens, and InputError for
    lengths that are negative or not integers, or lists of different sizes. Takes O(n log n) time, without holding a lock.
    """
    prompts, responses = _prompts_and_responses(lengths, prompts, responses)
    samples = _Samples(prompts, responses, groups, loss_tokens, tokens)
    pointer = ctypes.c_void_p()
    lib.evenkeel_plan_create(samples.struct, Config.of(config, **sections)._handle, _c.encoded(profile), _c.int64(step),
                             -1 if ranks is None else _c.int32(ranks), ctypes.byref(pointer))
    return StepPlan(_arrays.Handle(pointer, lib.evenkeel_plan_destroy))


def losses_of(
    micro_batches: Iterable[Iterable[Any]],
    lengths: Any = None,
    *,
    prompts: Any = None,
    responses: Any = None,
    groups: Iterable[Any] | None = None,
    loss_tokens: Any = None,
    config: ConfigLike = None,
    profile: str = "",
    **sections: Any,
) -> list[list[MicroBatchLoss]]:
    """Computes the weights of micro-batches that were planned elsewhere, so that their loss equals that of the whole
    mini-batch.

    ``micro_batches`` has one list per DP rank, with one list of samples per micro-batch; together they are one
    mini-batch. Samples are given as for plan(), and ``loss={"aggregation": ...}`` or ``config`` defines the loss.
    Returns one list per DP rank. Raises InputError unless every sample is in exactly one micro-batch and all DP ranks have the
    same number of them.
    """
    prompts, responses = _prompts_and_responses(lengths, prompts, responses)
    lists = [[_arrays.integers(samples, f"micro_batches[{r}][{m}]") for m, samples in enumerate(of_rank)]
             for r, of_rank in enumerate(micro_batches)]
    every = [samples for of_rank in lists for samples in of_rank]
    numbers = np.concatenate(every) if every else np.empty(0, np.int64)
    offsets, ranks = np.cumsum([0, *map(len, every)], dtype=np.int64), np.cumsum([0, *map(len, lists)], dtype=np.int64)
    of = _Samples(prompts, responses, groups, loss_tokens, None)
    found = _arrays.named_arrays(
        lib.evenkeel_losses, of.struct, Config.of(config, **sections)._handle, _c.encoded(profile), _c.address(numbers),
        _c.address(offsets), len(every), _c.address(ranks), len(lists))
    losses = [MicroBatchLoss(found["token_weights"][begin:end], scale, mean) for begin, end, scale, mean in zip(
        offsets.tolist(), offsets[1:].tolist(), found["scale"].tolist(), found["mean_weight"].tolist())]
    return [losses[begin:end] for begin, end in zip(ranks.tolist(), ranks[1:].tolist())]


class _Samples:
    """The samples of a step in the form that the library takes, with the arrays that it refers to."""

    def __init__(self, prompts: Int64s, responses: Int64s, groups: Any, loss_tokens: Any, tokens: Any) -> None:
        if len(prompts) != len(responses):
            _c.raise_error("input", "responses", f"{describe_count(len(prompts), 'prompt')} but {counted(len(responses), 'response')}",
                           "Give one of each for every sample")
        self._count = len(prompts)
        self._prompts, self._responses = prompts, responses
        self._groups = None if groups is None else self._require_entries(_number_groups(groups), "groups")
        self._loss_tokens = None if loss_tokens is None else self._require_entries(_arrays.integers(loss_tokens, "loss_tokens"), "loss_tokens")
        self._tokens = self._offsets = None
        if tokens is not None:
            self._tokens, self._offsets = _arrays.concatenate(self._require_entries(tokens, "tokens"), "tokens")
        self.struct = c.evenkeel_lengths(self._count, *(None if array is None else _c.address(array) for array in (
            prompts, responses, self._groups, self._loss_tokens, self._tokens, self._offsets)))

    def _require_entries(self, given: Any, name: str) -> Any:
        if len(given) != self._count:
            _c.raise_error("input", name, f"has {counted(len(given), 'entry', 'entries')} for {counted(self._count, 'sample')}",
                           "Give one entry per sample")
        return given


def _prompts_and_responses(lengths: Any, prompts: Any, responses: Any) -> tuple[Int64s, Int64s]:
    """Returns each sample's prompt and response tokens, from prompts and responses, lengths and prompts, or lengths alone."""
    given = {"lengths": lengths, "prompts": prompts, "responses": responses}
    numbers = {name: _arrays.integers(values, name) for name, values in given.items() if values is not None}
    if set(numbers) == {"prompts", "responses"}:
        return numbers["prompts"], numbers["responses"]
    if set(numbers) == {"lengths"}:
        return np.zeros_like(numbers["lengths"]), numbers["lengths"]
    if set(numbers) == {"lengths", "prompts"}:
        return numbers["prompts"], _responses_of(numbers["lengths"], numbers["prompts"])
    raise TypeError("samples are described by lengths, by prompts and responses, or by lengths and prompts")


def _responses_of(lengths: Int64s, prompts: Int64s) -> Int64s:
    if lengths.shape != prompts.shape:
        _c.raise_error("input", "prompts", f"has {counted(len(prompts), 'entry', 'entries')} for {counted(len(lengths), 'sample')}")
    responses: Int64s = lengths - prompts
    if (responses < 0).any():
        at = int(np.argmax(responses < 0))
        _c.raise_error("input", f"prompts[{at}]", f"is {prompts[at]}, but the sample has {counted(lengths[at], 'token')}")
    return responses


def _number_groups(groups: Iterable[Any]) -> Int64s:
    """Numbers groups in the order of their first occurrence."""
    if hasattr(groups, "tolist"):
        groups = groups.tolist()
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(group, len(numbers)) for group in groups], dtype=np.int64)
