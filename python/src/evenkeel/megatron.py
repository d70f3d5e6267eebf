"""Micro-batches for Megatron-Core's schedules: an iterator for forward_backward_func, its loss, and a scheduler."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from evenkeel import _c
from evenkeel._fields import RULES
from evenkeel._text import counted
from evenkeel.planning import plan
from evenkeel.service import DataService
from evenkeel.steps import MicroBatch, Step

if TYPE_CHECKING:
    import torch

__all__ = ["DataIterator", "DynamicCPScheduler", "data_iterator", "loss", "mesh"]


def mesh(parallel_state: Any = None) -> dict[str, int]:
    """Returns the section ``mesh`` of a configuration, from Megatron's parallel_state (None: that of megatron.core)."""
    state = _parallel_state(parallel_state)
    sizes = {
        "tp": state.get_tensor_model_parallel_world_size(),
        "cp": state.get_context_parallel_world_size(),
        "dp": state.get_data_parallel_world_size(),
        "pp": state.get_pipeline_model_parallel_world_size(),
    }
    return {axis: int(size) for axis, size in sizes.items()}


def data_iterator(service: DataService, *, device: Any = None, parallel_state: Any = None) -> DataIterator:
    """Returns the argument ``data_iterator`` of forward_backward_func, over the steps of the service's configured
    sources.

    service         the service that makes the steps
    device          the device of the tensors; None: unchanged
    parallel_state  Megatron's parallel_state; None: that of megatron.core

    Raises MeshError on a rank whose place in the service's mesh differs from its place in Megatron's mesh. Raises
    ConfigError if prefixes are shared (``prefix.share``), since Megatron's attention does not support that.
    """
    _require_same_place(service, _parallel_state(parallel_state))
    return DataIterator(service, device)


def loss(batch: dict[str, Any], losses: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
    """Returns the three values of a loss_func for Megatron's schedules.

    1. This micro-batch's part of the loss of the whole mini-batch, scaled for Megatron's reductions.
    2. The number of tokens to divide by: 1.
    3. The unscaled part under ``"loss"``. Its sum over micro-batches and the ranks along dp and cp is the loss.

    batch   a dictionary that the DataIterator returned
    losses  one loss per row of ``batch["labels"]``, in any shape

    Correct in every version of Megatron that accepts three values, with ``calculate_per_token_loss`` and without, if
    gradients are averaged over the ranks along dp and cp, as Megatron does. (Newer versions multiply the loss by cp if
    loss_func returns two values.) Raises InputError if the number of losses differs from the number of rows.
    """
    import torch

    flat = losses.flatten()
    weights = batch["loss_weights"].flatten()
    if flat.dtype == torch.float64:  # the weights before rounding to float32
        weights = torch.as_tensor(batch["micro_batch"].exact_loss_weights, device=weights.device)
    if flat.shape != weights.shape:
        _c.raise_error("input", "losses", f"has the shape {list(losses.shape)}; the micro-batch has {counted(len(weights), 'row')} on "
                       "this rank")
    part = (weights * flat).sum()
    return part * batch["loss_scale"], torch.ones((), dtype=torch.int, device=part.device), {"loss": part.detach()}


class DataIterator:
    """Yields the micro-batches of one mini-batch, one after another:

        for step in iterator.steps():
            forward_backward_func(forward_step, iterator, model, iterator.num_microbatches, ...)

    ``next(iterator)`` returns a dict with these keys, if this pipeline stage has the fields:

    tokens             the token ids, [1, rows] on this context-parallel rank
    labels             [1, rows]
    loss_mask          [1, rows]
    position_ids       [1, rows]
    loss_weights       [1, rows]
    packed_seq_params  arguments of the installed PackedSeqParams
    attention_mask     None: packed_seq_params defines which rows attend to each other
    loss_scale         the factor that loss() applies
    micro_batch        the MicroBatch

    Other token fields are [1, rows, ...]. Fields of other kinds are as in the micro-batch.
    """

    def __init__(self, service: DataService, device: Any) -> None:
        share = service.config.settings()["prefix.share"]
        if share:
            _c.raise_error("config", "prefix.share",
                           f"is {str(share).lower()}, but PackedSeqParams cannot express which segments see each other",
                              "Set prefix.share: false, or iterate the service and take micro_batch.tree (docs/prefix-sharing.md)")
        self._service, self._device = service, device
        self._params = _fields_of_packed_seq_params()
        self._step: Step | None = None
        self._micro_batches: list[MicroBatch] = []
        self._left: Iterator[MicroBatch] = iter(())
        self._scale = 1.0

    def steps(self) -> Iterator[Step]:
        """Yields each step once per mini-batch. The iterator then yields the micro-batches of that mini-batch, for one
        update of the optimizer.

        Raises InputError if micro-batches of the previous mini-batch are left, which would otherwise be lost."""
        for step in self._service:
            for mini_batch in sorted({part.mini_batch for part in step}):
                self.begin(step, mini_batch)
                yield step
                left = sum(1 for _ in self._left)
                if left:
                    _c.raise_error("input", f"step {step.index}", f"leaves {counted(left, 'micro-batch', 'micro-batches')} unconsumed",
                                      "Pass the iterator's num_microbatches to forward_backward_func")

    def begin(self, step: Step, mini_batch: int | None = None) -> None:
        """Starts with the first micro-batch of a mini-batch, for a step that ``service.step()`` made or to repeat a
        mini-batch.

        step        the step
        mini_batch  the mini-batch; None: the only one of the step. Raises InputError if the step has several"""
        self._scale = self._service.gradient_scale(step, dp_ranks="mean", micro_batches="mean", mini_batch=mini_batch)
        self._micro_batches = [part for part in step if mini_batch in (None, part.mini_batch)]
        self._step, self._left = step, iter(self._micro_batches)

    @property
    def num_microbatches(self) -> int:
        """Number of micro-batches of the current mini-batch on this rank. Raises InputError if there is no step yet.

        It is the same on all ranks, except with ``micro_batch.equal_counts: auto``, and with ``mesh.cp: flexible`` and
        the strategy ``hierarchical``."""
        if self._step is None:
            _c.raise_error("input", "data_iterator", "has no step yet", "Loop over steps(), or call begin()")
        return len(self._micro_batches)

    def __iter__(self) -> DataIterator:
        return self

    def __next__(self) -> dict[str, Any]:
        micro_batch = next(self._left)
        batch: dict[str, Any] = {"micro_batch": micro_batch, "attention_mask": None, "loss_scale": self._scale}
        fields = micro_batch.kinds()
        tensors = micro_batch._as_tensors() if self._device is None else micro_batch.to(self._device)
        for name, kind in fields.items():
            rows = tensors[name]
            batch["tokens" if name == "input_ids" else name] = rows.unsqueeze(0) if RULES[kind].is_cut else rows
        batch["packed_seq_params"] = {**micro_batch._packed_seq_params(tensors), **self._newer_params(micro_batch)}
        return batch

    def _newer_params(self, micro_batch: MicroBatch) -> dict[str, Any]:
        """Returns the arguments that newer versions of PackedSeqParams have.

        Without total_tokens it has no seq_idx, and Mamba layers carry the state of one sequence into the next. Without
        pad_between_seqs Transformer Engine compares the ends of sequences on the device."""
        true, padded = micro_batch._true, micro_batch._padded
        values = {"total_tokens": int(padded[-1]), "pad_between_seqs": not np.array_equal(true, padded)}
        return {name: value for name, value in values.items() if name in self._params}


class DynamicCPScheduler:
    """Plans dynamic context-parallel groups with the arguments of Megatron's DefaultDynamicCPScheduler, for verl, and
    for ``get_groups_and_subsamples`` of a class in Megatron's ``scheduler_map``.

    max_seqlen_per_dp_cp_rank           the cap in tokens per rank and micro-batch, after alignment
    cp_size                             cp_size * dp_size is the number of ranks, which must be a power of two
    dp_size                             see cp_size. A group has a power of two of neighboring ranks
    microbatch_group_size_per_vp_stage  the number of micro-batches is a multiple of it; None: any number
    settings                            settings of the planner, as for evenkeel.plan, except for mesh and micro_batch;
                                        ``balance={"cost": "flops-7b"}`` unless given
    """

    def __init__(
        self,
        max_seqlen_per_dp_cp_rank: int,
        cp_size: int,
        dp_size: int,
        microbatch_group_size_per_vp_stage: int | None = None,
        **settings: Any,
    ) -> None:
        self.ranks = cp_size * dp_size
        if cp_size < 1 or dp_size < 1 or self.ranks & (self.ranks - 1):
            _c.refuse("cp_size * dp_size", f"is {cp_size} * {dp_size}, but the number of ranks must be a power of two",
                      "Choose cp_size and dp_size whose product is a power of two")
        for name in ("mesh", "micro_batch"):
            if name in settings:
                _c.refuse(name, "cannot be set, since the arguments of the schedule decide it", f"Leave {name} out")
        if settings.get("balance", {}).get("strategy", "grid") != "grid":
            _c.refuse("balance.strategy", f"is '{settings['balance']['strategy']}', but this schedule needs 'grid'", "Leave it out")
        self.settings: dict[str, Any] = {
            **settings,
            "mesh": {"dp": self.ranks, "cp": "flexible"},
            "balance": {"cost": "flops-7b", **settings.get("balance", {}), "strategy": "grid"},
            "micro_batch": {
                "max_tokens_per_rank": max_seqlen_per_dp_cp_rank, "multiple_of": microbatch_group_size_per_vp_stage or 1,
            },
        }

    def get_groups_and_subsamples(self, sample_id_seqlens: Iterable[tuple[int, int]]) -> list[list[list[int]]]:
        """Returns the sample ids of each rank in each micro-batch: [micro-batch][rank][sample].

        sample_id_seqlens  a pair (id, length in tokens) per sample

        The ranks of a group get the same samples, and every rank gets samples. Raises InputError if there are fewer
        samples than micro-batches.
        """
        pairs = list(sample_id_seqlens)
        ids = [int(sample) for sample, _ in pairs]
        planned = plan([length for _, length in pairs], **self.settings)
        columns = []
        for at_once in zip(*(rank.micro_batches for rank in planned.ranks)):
            groups = {part.context: [ids[index] for index in part.samples] for part in at_once if len(part.samples) > 0}
            if not groups:
                _c.refuse("sample_id_seqlens", f"has {counted(len(ids), 'sample')} for "
                          f"{counted(planned.num_micro_batches, 'micro-batch', 'micro-batches')}, but each needs at least one",
                          "Pass more samples, or reduce microbatch_group_size_per_vp_stage")
            columns.append(_fill_ranks([(size, samples) for (_, size), samples in groups.items()], self.ranks))
        return columns


def _fill_ranks(groups: list[tuple[int, list[int]]], ranks: int) -> list[list[int]]:
    """Returns the samples of each rank such that every rank has samples.

    1. While ranks are left, doubles the ranks of the smallest group. Sizes are powers of two, so the groups always fit.
    2. Assigns ranks to the groups in descending order of size, so that each group begins at a multiple of its size.
    """
    while sum(size for size, _ in groups) < ranks:
        size, samples = min(groups, key=lambda group: group[0])
        groups[groups.index((size, samples))] = (2 * size, samples)
    largest_first = sorted(groups, key=lambda group: group[0], reverse=True)
    return [samples for size, samples in largest_first for _ in range(size)]


def _fields_of_packed_seq_params() -> set[str]:
    """Returns the names of the fields of the installed PackedSeqParams; an empty set if Megatron-Core is not installed."""
    try:
        from megatron.core.packed_seq_params import PackedSeqParams
    except ImportError:
        return set()
    return {field.name for field in dataclasses.fields(PackedSeqParams)}


def _parallel_state(given: Any) -> Any:
    if given is not None:
        return given
    from megatron.core import parallel_state

    return parallel_state


def _require_same_place(service: DataService, state: Any) -> None:
    here = {axis: place for axis, (place, _) in service.mesh.items()}
    theirs = {
        "tp": state.get_tensor_model_parallel_rank(),
        "cp": state.get_context_parallel_rank(),
        "dp": state.get_data_parallel_rank(),
        "pp": state.get_pipeline_model_parallel_rank(),
    }
    sizes = {axis: size for axis, (_, size) in service.mesh.items()}
    if here != theirs or sizes != mesh(state):
        _c.raise_error(
            "mesh",
            "mesh",
            f"is {sizes} with this rank at {here}; Megatron's is {mesh(state)} with it at {theirs}",
            "Take the mesh from evenkeel.megatron.mesh(), and set mesh.order to Megatron's order of ranks",
        )
