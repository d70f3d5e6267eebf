"""Planning a step: which samples each data-parallel rank gets, in which micro-batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from evenkeel import _core
from evenkeel._core import DpRankPlan, MicroBatchLoss, MicroBatchPlan, StepPlan
from evenkeel.config import Config, ConfigLike

Int64s = npt.NDArray[np.int64]

__all__ = ["DpRankPlan", "MicroBatchLoss", "MicroBatchPlan", "StepPlan", "losses_of", "plan"]


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
    """Plans a step for all data-parallel ranks: the micro-batches that the ranks of a job arrive at together.

    Samples are told by their lengths in tokens, one number a sample: a list, an integer array or a tensor. Give
    ``lengths`` where all tokens are response, else ``prompts`` and ``responses``, or ``lengths`` and ``prompts``.

    groups       the prompt of each sample, by a uid, a number or anything that can be a key of a dict: what prompt-mean
                 averages over, and whose samples ``prefix`` lets share tokens
    loss_tokens  tokens that carry loss by a mask of yours; -1: the sample's response tokens
    tokens       each sample's tokens; needed with ``prefix={"share": "tree"}`` only
    config       a Config, a mapping, or the path of a YAML file; ``sections`` change it, such as
                 ``mesh={"dp": 8}, micro_batch={"max_tokens": 16384}``
    profile      the name of one of its profiles
    ranks        ranks of the world, where mesh.dp is auto
    step         the number of the step, which names what is drawn for it

    Deterministic: every process that plans from equal arguments has an equal plan (compare ``plan.hash``). Raises
    ConfigError for settings that do not fit, LimitError for a sample above micro_batch.max_tokens, InputError for lengths
    that are negative or no whole numbers, or lists of different sizes. Takes O(n log n) and holds no lock meanwhile.
    """
    prompts, responses = _prompts_and_responses(lengths, prompts, responses)
    return _core.plan(
        prompts,
        responses,
        None if groups is None else _numbered(groups),
        loss_tokens,
        tokens,
        Config.of(config, **sections)._core,
        profile,
        step,
        ranks,
    )


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
    """The weights of micro-batches that somebody else made, so that their loss is that of the whole mini-batch.

    ``micro_batches`` has one list a DP rank, of one list of samples a micro-batch; all together are one mini-batch. Samples
    are told as for plan(), and ``loss={"aggregation": ...}`` or ``config`` says what the loss is. Returns a list a DP rank.
    Raises InputError unless every sample is in one micro-batch and all DP ranks have the same number of them.
    """
    prompts, responses = _prompts_and_responses(lengths, prompts, responses)
    numbers = None if groups is None else _numbered(groups)
    settings = Config.of(config, **sections)._core
    return _core.losses_of(micro_batches, prompts, responses, numbers, loss_tokens, settings, profile)


def _prompts_and_responses(lengths: Any, prompts: Any, responses: Any) -> tuple[Int64s, Int64s]:
    """Each sample's prompt and response tokens, from any two of the three or from lengths alone."""
    given = {"lengths": lengths, "prompts": prompts, "responses": responses}
    numbers = {name: _core.integers(values, name) for name, values in given.items() if values is not None}
    if set(numbers) == {"prompts", "responses"}:
        return numbers["prompts"], numbers["responses"]
    if set(numbers) == {"lengths"}:
        return np.zeros_like(numbers["lengths"]), numbers["lengths"]
    if set(numbers) == {"lengths", "prompts"}:
        return numbers["prompts"], _rest(numbers["lengths"], numbers["prompts"])
    raise TypeError("samples are told by lengths, by prompts and responses, or by lengths and prompts")


def _rest(lengths: Int64s, prompts: Int64s) -> Int64s:
    if lengths.shape != prompts.shape:
        _core.raise_error("input", "prompts", f"there are {len(prompts)} for {len(lengths)} samples")
    responses: Int64s = lengths - prompts
    if (responses < 0).any():
        at = int(np.argmax(responses < 0))
        _core.raise_error("input", f"prompts[{at}]", f"is {prompts[at]}; the sample has {lengths[at]} tokens")
    return responses


def _numbered(groups: Iterable[Any]) -> Int64s:
    """Groups as numbers in the order in which they come first."""
    if hasattr(groups, "tolist"):
        groups = groups.tolist()
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(group, len(numbers)) for group in groups], dtype=np.int64)
