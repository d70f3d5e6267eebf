"""Micro-batches as Megatron-Core's schedules take them: an iterator to hand to forward_backward_func."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from evenkeel import _core
from evenkeel._fields import RULES
from evenkeel.service import DataService
from evenkeel.steps import MicroBatch, Step

if TYPE_CHECKING:
    import torch

__all__ = ["DataIterator", "data_iterator", "loss", "mesh"]


def mesh(parallel_state: Any = None) -> dict[str, int]:
    """The section ``mesh`` of a configuration, from Megatron's parallel_state (None: megatron.core's)."""
    state = _parallel_state(parallel_state)
    sizes = {
        "tp": state.get_tensor_model_parallel_world_size(),
        "cp": state.get_context_parallel_world_size(),
        "dp": state.get_data_parallel_world_size(),
        "pp": state.get_pipeline_model_parallel_world_size(),
    }
    return {axis: int(size) for axis, size in sizes.items()}


def data_iterator(service: DataService, *, device: Any = None, parallel_state: Any = None) -> DataIterator:
    """What forward_backward_func takes for ``data_iterator``, over the steps of the service's configured sources. Tensors come
    on ``device`` (None: where they are). Raises MeshError on a rank whose place in Megatron's mesh is another one, and
    ConfigError where prefixes are shared (``prefix.share``), which Megatron's attention cannot be told."""
    _require_same_place(service, _parallel_state(parallel_state))
    return DataIterator(service, device)


def loss(batch: dict[str, Any], losses: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
    """What a loss_func returns to Megatron's schedules: this micro-batch's part of the loss of the whole mini-batch, scaled for
    Megatron's reductions; a number of tokens to divide by, 1; and the unscaled part under ``"loss"``, whose sum over
    micro-batches and the ranks along dp and cp is the loss.

    ``losses`` has one for each row of ``batch["labels"]``, in any shape. Right in every version that takes three values, with
    ``calculate_per_token_loss`` and without, with gradients averaged over the ranks along dp and cp, as Megatron does. (Two
    values Megatron multiplies by cp, in newer versions.)
    """
    import torch

    flat = losses.flatten()
    weights = batch["loss_weights"].flatten()
    if flat.dtype == torch.float64:  # the weights before they were rounded
        weights = torch.as_tensor(batch["micro_batch"].exact_loss_weights, device=weights.device)
    if flat.shape != weights.shape:
        _core.raise_error("input", "losses", f"has the shape {list(losses.shape)}; the micro-batch has {len(weights)} rows here")
    part = (weights * flat).sum()
    return part * batch["loss_scale"], torch.ones((), dtype=torch.int, device=part.device), {"loss": part.detach()}


class DataIterator:
    """Hands out the micro-batches of one mini-batch after the other:

        for step in iterator.steps():
            forward_backward_func(forward_step, iterator, model, iterator.num_microbatches, ...)

    ``next(iterator)`` is a dict: ``tokens``, ``labels``, ``loss_mask`` and ``position_ids`` [1, rows] on this context-parallel
    rank, and other token fields and ``loss_weights`` alike, where this pipeline stage has them; ``packed_seq_params``, keywords
    of Megatron's PackedSeqParams; sample fields as they are; ``loss_scale``, which loss() multiplies with; and ``micro_batch``,
    the MicroBatch itself. ``attention_mask`` is None: packed_seq_params says who sees whom.
    """

    def __init__(self, service: DataService, device: Any) -> None:
        share = service.config.settings()["prefix.share"]
        if share:
            _core.raise_error("config", "prefix.share", f"is {str(share).lower()}, and PackedSeqParams cannot say which segments see each other",
                              "Set prefix.share: false, or iterate the service and take micro_batch.tree (docs/prefix-sharing.md)")
        self._service, self._device = service, device
        self._step: Step | None = None
        self._micro_batches: list[MicroBatch] = []
        self._left: Iterator[MicroBatch] = iter(())
        self._scale = 1.0

    def steps(self) -> Iterator[Step]:
        """Each step, once for each of its mini-batches, whose micro-batches the iterator then hands out: one update of the
        optimizer each. Raises InputError where the one before has micro-batches left, which no other may get."""
        for step in self._service:
            for mini_batch in sorted({part.mini_batch for part in step}):
                self.begin(step, mini_batch)
                yield step
                left = sum(1 for _ in self._left)
                if left:
                    _core.raise_error("input", f"step {step.index}", f"has {left} micro-batches left that nobody took",
                                      "Pass num_microbatches to forward_backward_func")

    def begin(self, step: Step, mini_batch: int | None = None) -> None:
        """Hands out the micro-batches of a mini-batch of this step from the first on: of one made by ``service.step()``, or
        once more. None: of a step that has one mini-batch."""
        self._scale = self._service.gradient_scale(step, ranks="mean", micro_batches="mean", mini_batch=mini_batch)
        self._micro_batches = [part for part in step if mini_batch in (None, part.mini_batch)]
        self._step, self._left = step, iter(self._micro_batches)

    @property
    def num_microbatches(self) -> int:
        """Of what is handed out; the same on all ranks but with ``mesh.cp: flexible`` and strategy hierarchical."""
        if self._step is None:
            _core.raise_error("input", "data_iterator", "has no step yet", "Loop over steps(), or call begin()")
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
        batch["packed_seq_params"] = micro_batch._packed_seq_params(tensors)
        return batch


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
        _core.raise_error(
            "mesh",
            "mesh",
            f"is {sizes} with this rank at {here}; Megatron's is {mesh(state)} with it at {theirs}",
            "Take the mesh from evenkeel.megatron.mesh(), and mesh.order from Megatron's",
        )
