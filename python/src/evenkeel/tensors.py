"""Makes the tensors of a planned micro-batch on one context-parallel rank, in a process that has the samples itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from evenkeel import _arrays, _c, packing
from evenkeel._text import counted
from evenkeel.packing import PackedLayout
from evenkeel.planning import MicroBatchPlan

__all__ = ["micro_batch_tensors"]


def micro_batch_tensors(
    micro_batch: MicroBatchPlan,
    fields: Mapping[str, Sequence[Any]],
    *,
    cp_rank: int = 0,
    pad_token: int = 0,
    label_pad: int = -100,
) -> dict[str, Any]:
    """Returns the tensors of one rank's forward-backward pass (docs/micro-batches.md), by name.

    ``fields`` are token fields: for each name, one tensor [length, ...] per sample of the *step*. They must include
    ``input_ids``, of int64. Micro-batches select their samples, so all of a step take the same fields.

    The result has your fields packed and cut, [local_rows, ...], with 0 (``pad_token`` for tokens) in pad rows. It also has
    ``labels`` and ``position_ids`` of int64 and ``loss_mask`` of float32, unless they are in ``fields``; ``loss_weights``
    [local_rows] float32, whose product with the losses, summed over rows and times ``micro_batch.scale``, is this rank's part of
    the loss; ``cu_seqlens`` and ``cu_seqlens_padded`` [sequences + 1] int32, over the whole CP group; and ``max_seqlen``, an int.
    Tensors have the type of ``input_ids``.

    An empty micro-batch has one filler sequence: pad tokens, labels of ``label_pad``, mask and weights 0. Raises InputError for a
    field whose number of samples or rows differs from the plan, and if samples share prefixes (see evenkeel.prefix).
    """
    if micro_batch.tree() is not None:
        _c.raise_error("input", "micro_batch", "its samples share prefixes, which micro_batch_tensors does not support",
                       "Use evenkeel.prefix.tree_rows and evenkeel.pack_all with micro_batch.tree() (docs/python.md, Shared "
                       "prefixes), or plan with prefix.share: false")
    if "input_ids" not in fields:
        _c.raise_error("input", "fields", f"have no input_ids; they are: {', '.join(fields) or 'none'}")
    return _Maker(micro_batch, fields, cp_rank).make(pad_token, label_pad)


class _Maker:
    """Packs one field after another, and derives the missing fields."""

    def __init__(self, micro_batch: MicroBatchPlan, fields: Mapping[str, Sequence[Any]], cp_rank: int) -> None:
        self.micro_batch = micro_batch
        self.samples = micro_batch.samples.tolist()
        self.fields = fields
        self.cp_rank = cp_rank
        self.filler = micro_batch.tokens == 0
        layout = micro_batch.layout()
        # Filler is alignment without tokens, so the same calls create it.
        self.layout = (
            PackedLayout([0] * len(layout), alignment=layout.alignment, cp=layout.cp, aligned_lengths=layout.aligned_lengths)
            if self.filler
            else layout
        )
        self.whole = layout

    def make(self, pad_token: int, label_pad: int) -> dict[str, Any]:
        tensors = {name: self.pack_field(name, pad_token if name == "input_ids" else 0) for name in self.fields}
        tokens = tensors["input_ids"]
        derived: dict[str, Callable[[], Any]] = {
            "labels": lambda: packing.labels(self.layout, self.concatenate("input_ids"), cp_rank=self.cp_rank, label_pad=label_pad),
            "position_ids": lambda: packing.position_ids(self.layout, cp_rank=self.cp_rank),
            "loss_mask": lambda: packing.loss_mask(self.layout, self.prompts(), cp_rank=self.cp_rank),
        }
        for name, make in derived.items():
            if name not in tensors:
                tensors[name] = make()
        tensors["loss_weights"] = packing.loss_weights(self.layout, self.micro_batch.token_weights, tensors["loss_mask"])
        tensors["cu_seqlens"] = self.whole.cu_seqlens
        tensors["cu_seqlens_padded"] = self.whole.cu_seqlens_padded
        tensors = {name: _convert_like(tensor, tokens) for name, tensor in tensors.items()}
        return {**tensors, "max_seqlen": self.whole.max_seqlen}

    def select_rows(self, name: str) -> list[Any]:
        """Returns the field's rows of each sample of the micro-batch."""
        rows = self.fields[name]
        last = max(self.samples, default=-1)
        if last >= len(rows):
            _c.raise_error("input", f"fields[{name!r}]", f"has {counted(len(rows), 'sample')}, but the micro-batch contains sample {last}",
                              "Pass the field of all samples of the step")
        chosen = [rows[i] for i in self.samples]
        for i, row, tokens in zip(self.samples, chosen, self.layout.lengths.tolist()):
            count = _arrays.Rows(row, f"fields[{name!r}][{i}]").array.shape[0]
            if count != tokens:
                _c.raise_error("input", f"fields[{name!r}][{i}]", f"has {counted(count, 'row')}, but sample {i} has "
                               f"{counted(tokens, 'token')}", "Pass one row per token")
        return chosen

    def pack_field(self, name: str, pad: Any) -> Any:
        rows = self.select_rows(name)
        if self.filler:
            like = _arrays.Rows(self.fields[name][0], name) if len(self.fields[name]) else _empty_rows(name)
            return packing.pack(self.layout, like.empty(0, *like.trailing).value, cp_rank=self.cp_rank, pad=pad)
        return packing.pack(self.layout, rows, cp_rank=self.cp_rank, pad=pad)

    def concatenate(self, name: str) -> Any:
        """Concatenates the rows of the field."""
        rows = [] if self.filler else self.select_rows(name)
        if rows and _arrays.is_tensor(rows[0]):
            import torch

            return torch.cat(rows)
        return np.concatenate([np.empty(0, np.int64), *map(np.asarray, rows)])

    def prompts(self) -> npt.NDArray[np.int64]:
        return np.zeros(len(self.layout), np.int64) if self.filler else self.micro_batch.prompt_lengths


def _empty_rows(name: str) -> _arrays.Rows:
    return _arrays.Rows(np.empty(0, np.int64), name)


def _convert_like(value: Any, like: Any) -> Any:
    return _arrays.convert_like(value, like) if isinstance(value, np.ndarray) else value
