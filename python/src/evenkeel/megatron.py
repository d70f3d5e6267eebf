"""Micro-batches as Megatron-Core's schedules take them: an iterator to hand to forward_backward_func."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from evenkeel import _core
from evenkeel.service import DataService
from evenkeel.steps import MicroBatch, Step

__all__ = ["DataIterator", "data_iterator", "mesh"]


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
    on ``device`` (None: where they are). Raises MeshError on a rank whose place in Megatron's mesh is another one."""
    _require_same_place(service, _parallel_state(parallel_state))
    return DataIterator(service, device)


class DataIterator:
    """Hands out the micro-batches of one step after the other:

        for step in iterator.steps():
            forward_backward_func(forward_step, iterator, model, iterator.num_microbatches, ...)

    ``next(iterator)`` is a dict: ``tokens``, ``labels``, ``loss_mask`` and ``position_ids`` [1, rows] on this context-parallel
    rank, and other token fields and ``loss_weights`` alike, where this pipeline stage has them; ``packed_seq_params``, keywords
    of Megatron's PackedSeqParams; sample fields as they are; and ``micro_batch``, the MicroBatch itself. ``attention_mask`` is
    None: packed_seq_params says who sees whom.
    """

    def __init__(self, service: DataService, device: Any) -> None:
        self._service, self._device = service, device
        self._step: Step | None = None
        self._left: Iterator[MicroBatch] = iter(())

    def steps(self) -> Iterator[Step]:
        """Each step, whose micro-batches the iterator then hands out once. Raises InputError where the step before has some
        left, which no other step may get."""
        for step in self._service:
            self.begin(step)
            yield step
            left = sum(1 for _ in self._left)
            if left:
                _core.raise_error("input", f"step {step.index}", f"has {left} micro-batches left that nobody took",
                                  "Pass num_microbatches to forward_backward_func")

    def begin(self, step: Step) -> None:
        """Hands out the micro-batches of this step from the first on: of one made by ``service.step()``, or once more."""
        self._step, self._left = step, iter(step)

    @property
    def num_microbatches(self) -> int:
        """Of the step that is handed out; the same on all ranks but with ``mesh.cp: flexible`` and strategy hierarchical."""
        if self._step is None:
            _core.raise_error("input", "data_iterator", "has no step yet", "Loop over steps(), or call begin()")
        return len(self._step)

    def __iter__(self) -> DataIterator:
        return self

    def __next__(self) -> dict[str, Any]:
        micro_batch = next(self._left)
        batch: dict[str, Any] = {"micro_batch": micro_batch, "attention_mask": None}
        fields = micro_batch.kinds()
        tensors = micro_batch._as_tensors() if self._device is None else micro_batch.to(self._device)
        for name, kind in fields.items():
            rows = tensors[name]
            batch["tokens" if name == "input_ids" else name] = rows.unsqueeze(0) if kind in ("token", "response_token") else rows
        batch["packed_seq_params"] = micro_batch.packed_seq_params(device=self._device)
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
