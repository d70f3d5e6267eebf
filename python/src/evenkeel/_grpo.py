"""Adds a cap in tokens to TRL's GRPOTrainer: the part of evenkeel.huggingface for samples that the trainer generates."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from evenkeel._c import refuse
from evenkeel._cut import cut

_Base: Any = object

# The tensors of a batch, as TRL prepares it. Those of completions have one row per sample.
_PROMPTS = {"prompt_ids", "prompt_mask"}
_COMPLETIONS = {
    "completion_ids", "completion_mask", "tool_mask", "advantages", "old_per_token_logps", "ref_per_token_logps", "sampling_per_token_logps",
    "importance_sampling_ratio",
}
_OF_THE_STEP = {"num_items_in_batch"}

# What TRL's losses divide by: a number that does not depend on the micro-batch, its samples, or its tokens with loss.
_BY_STEP, _BY_SAMPLES, _BY_TOKENS = {"cispo", "dapo", "vespo"}, {"grpo", "sapo", "dr_grpo", "luspo"}, {"bnpo"}


class BalancedGRPOTrainer(_Base):  # type: ignore[misc]
    """Cuts each batch of a GRPOTrainer into micro-batches. Must precede GRPOTrainer in the list of base classes."""

    balance_cap: int

    def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None) -> Any:
        """Returns the loss of the batch. All its micro-batches but the last have already been backpropagated."""
        if return_outputs or not self.model.training:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        if self.is_deepspeed_enabled:
            refuse("deepspeed", "needs a fixed number of micro-batches per step, but Evenkeel varies it", "Use FSDP or DDP")
        self._require_additive_loss()
        parts = [_rows_of(inputs, rows) for rows in self._cut_batch(inputs)]
        before: Any = 0
        for index, part in enumerate(parts):
            last = index + 1 == len(parts)
            with nullcontext() if last else self.accelerator.no_sync(model):
                with _pad_gathered_metrics(self.accelerator):
                    loss = super().compute_loss(model, part) * self._loss_weight(part, inputs)
                if last:
                    return loss + before
                self.accelerator.backward(loss)
                before = before + loss.detach()

    def _cut_batch(self, inputs: Any) -> list[list[int]]:
        """Returns the rows of each micro-batch. A row counts as the longest prompt of the batch plus its own completion, so the cap holds
        for any combination of rows."""
        prompt = int(inputs["prompt_mask"].sum(1).max())
        lengths = (prompt + inputs["completion_mask"].sum(1).clamp(min=1)).tolist()
        settings = {"mode": "padded", "length_round": 1, "max_tokens": self.balance_cap}
        return cut(lengths, settings, self._max_over_ranks, "Raise max_tokens")

    def _max_over_ranks(self, numbers: list[int]) -> list[int]:
        import torch

        largest: list[int] = self.accelerator.gather(torch.tensor([numbers], device=self.accelerator.device)).amax(0).tolist()
        return largest

    def _loss_weight(self, part: Any, inputs: Any) -> Any:
        """Returns the weight of a micro-batch's loss; the weighted losses add up to the loss of the batch."""
        if self.loss_type in _BY_STEP:
            return 1
        if self.loss_type in _BY_SAMPLES:
            return len(part["completion_ids"]) / len(inputs["completion_ids"])
        tokens, of_all = ((batch["completion_mask"] * batch.get("tool_mask", 1)).sum().clamp(min=1) for batch in (part, inputs))
        return tokens / of_all

    def _require_additive_loss(self) -> None:
        if self.loss_type not in _BY_STEP | _BY_SAMPLES | _BY_TOKENS:
            refuse("loss_type", f"is {self.loss_type!r}, whose normalization Evenkeel does not know", "Use TRL's own trainer")
        means = {
            "entropy_coef": self._entropy_bonus_enabled, "top_entropy_quantile": self.top_entropy_quantile < 1,
            "router_aux_loss_coef": self.aux_loss_enabled,
        }
        for name in (name for name, is_used in means.items() if is_used):
            refuse(name, "depends on a statistic of the whole batch, which a micro-batch does not have", "Leave it out")


@contextmanager
def _pad_gathered_metrics(accelerator: Any) -> Iterator[None]:
    """Lets TRL gather metrics when ranks have micro-batches of different sizes, by padding with NaN, which TRL ignores."""
    gather = accelerator.gather
    accelerator.gather = lambda values: gather(accelerator.pad_across_processes(values, pad_index=float("nan")))
    try:
        yield
    finally:
        del accelerator.gather


def _rows_of(inputs: Any, rows: list[int]) -> Any:
    """Returns these rows of a batch, without columns that are padding in all of them. Prompts are padded on the left."""
    unknown = sorted(set(inputs) - _PROMPTS - _COMPLETIONS - _OF_THE_STEP)
    if unknown:
        refuse(f"input {unknown[0]!r}", "is not supported: only TRL's inputs for text can be cut into micro-batches", "Use TRL's own trainer")
    prompt = int(inputs["prompt_mask"][rows].sum(1).max())
    completion = max(1, int(inputs["completion_mask"][rows].sum(1).max()))  # TRL masks truncated completions as a whole
    width = inputs["completion_ids"].shape[1]

    def part_of(name: str, value: Any) -> Any:
        if name in _OF_THE_STEP:
            return value
        if name in _PROMPTS:
            return value[rows, value.shape[1] - prompt :]
        return value[rows, :completion] if value.dim() > 1 and value.shape[1] == width else value[rows]

    return {name: part_of(name, value) for name, value in inputs.items()}
