"""Uses Evenkeel's planner inside verl, in its engines and in its trainer, for batches in verl's form.

    import evenkeel.verl
    evenkeel.verl.install()                # in each worker, before or after its engine is imported
    evenkeel.verl.install_in_trainer()     # in the process of the trainer
    evenkeel.verl.install_dynamic_cp()     # in each worker of a Megatron engine with dynamic_context_parallel

The trainer gives each data-parallel rank an equal number of samples, which the rank cuts into mini-batches. install_in_trainer()
balances the work of ranks in every mini-batch, not only over all of them.

Each rank cuts a mini-batch into micro-batches of at most ``max_token_len_per_gpu`` tokens, and all ranks agree on their number. install()
replaces verl's prepare_micro_batches by that of this module: it keeps the samples of each rank, the cap and the order of results, and
makes as few micro-batches as its planner can on the rank that needs the most.

tensordict_of() converts a micro-batch of Evenkeel's service to the TensorDict that verl's engines and losses take.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Sequence
from typing import Any

from evenkeel._c import refuse
from evenkeel._cut import cut
from evenkeel._text import counted
from evenkeel.planning import plan

__all__ = ["install", "install_dynamic_cp", "install_in_trainer", "partitions_of_mini_batches", "prepare_micro_batches", "tensordict_of"]

# The work of a sample of s tokens is 24576 s + s^2, as in verl's calculate_workload.
COST = {"linear": 24576, "quadratic": 1}


def install() -> None:
    """Replaces ``prepare_micro_batches`` in verl.workers.engine.utils and in the engines that have already imported it."""
    from verl.workers.engine import utils

    original = utils.prepare_micro_batches
    if original is prepare_micro_batches:
        return
    vars(prepare_micro_batches)["replaced"] = original
    for name, module in list(sys.modules.items()):
        if name.startswith("verl.") and vars(module).get("prepare_micro_batches") is original:
            vars(module)["prepare_micro_batches"] = prepare_micro_batches


def install_in_trainer() -> None:
    """Makes ``_balance_batch`` of verl's PPOTrainer (V1) balance each mini-batch of the actor."""
    from verl.trainer.ppo.v1 import trainer_base

    original = trainer_base.PPOTrainer._balance_batch
    if getattr(original, "balances_mini_batches", False):
        return

    def balance_batch(self: Any, *arguments: Any, **keywords: Any) -> Any:
        def partitions(workloads: Any, k_partitions: int, equal_size: bool) -> list[list[int]]:
            lengths = [_length_of(int(workload)) for workload in workloads]
            return partitions_of_mini_batches(lengths, k_partitions, _mini_batches_of(self.config, len(lengths)))

        verls_own = trainer_base.get_seqlen_balanced_partitions
        trainer_base.get_seqlen_balanced_partitions = partitions
        try:
            return original(self, *arguments, **keywords)
        finally:
            trainer_base.get_seqlen_balanced_partitions = verls_own

    vars(balance_batch)["balances_mini_batches"] = True
    trainer_base.PPOTrainer._balance_batch = balance_batch


def install_dynamic_cp() -> None:
    """Makes verl's DynamicCPScheduler plan its groups with evenkeel.megatron.DynamicCPScheduler."""
    from verl.utils import dynamic_cp_scheduler

    original = dynamic_cp_scheduler.get_megatron_dynamic_cp_scheduler_cls
    for name, module in list(sys.modules.items()):
        if name.startswith("verl.") and vars(module).get("get_megatron_dynamic_cp_scheduler_cls") is original:
            vars(module)["get_megatron_dynamic_cp_scheduler_cls"] = _dynamic_cp_scheduler


def _dynamic_cp_scheduler() -> type:
    from evenkeel.megatron import DynamicCPScheduler

    return DynamicCPScheduler


def partitions_of_mini_batches(lengths: Sequence[int], ranks: int, mini_batches: int = 1) -> list[list[int]]:
    """Returns the samples of each rank, mini-batch by mini-batch. All ranks have the same number.

    A mini-batch has consecutive samples of ``lengths``, so groups of responses stay together. Within it, ranks get
    equal work. Raises InputError unless ``ranks * mini_batches`` divides the number of samples."""
    if len(lengths) % (ranks * mini_batches) != 0:
        refuse(
            "lengths", f"has {counted(len(lengths), 'sample')}, which is not a multiple of "
            f"{ranks * mini_batches}, the product of {counted(mini_batches, 'mini-batch', 'mini-batches')} and {counted(ranks, 'rank')}",
            "Change the number of samples or of mini-batches (in verl: ppo_mini_batch_size)",
        )
    planned = plan(
        lengths,
        mesh={"dp": ranks},
        batch={"mini_batches": mini_batches},
        balance={"cost": COST, "equal_count": True},
        micro_batch={"max_tokens": max(1, int(sum(lengths)))},  # the engine splits mini-batches further
    )
    return [[int(sample) for part in rank.micro_batches for sample in part.samples] for rank in planned.ranks]


def prepare_micro_batches(
    data: Any,
    dp_group: Any = None,
    num_batches_divided_by: int | None = None,
    same_micro_num_in_dp: bool = True,
    min_num_micro_batch: int | None = None,
    use_dynamic_bsz_balance: bool = True,
) -> tuple[list[Any], Any]:
    """verl's function of this name: returns the micro-batches of this rank's samples, and the samples in each.

    ``data`` is a TensorDict with jagged ``input_ids``, or with padded ones and an ``attention_mask`` [b, s]. All other fields are kept.
    verl itself cuts batches without ``use_dynamic_bsz``, and those with ``force_group_size``. Raises on all ranks of ``dp_group`` if one
    of them has a sample above the cap, or fewer samples than the micro-batches that another rank needs.
    """
    from verl.utils import tensordict_utils

    def setting(key: str, default: Any) -> Any:
        return tensordict_utils.get_non_tensor_data(data=data, key=key, default=default)

    if not setting("use_dynamic_bsz", True) or setting("force_group_size", 1) != 1:
        return _verls_own()(
            data, dp_group, num_batches_divided_by, same_micro_num_in_dp, min_num_micro_batch, use_dynamic_bsz_balance
        )
    lists = cut(
        _lengths_of(data),
        {
            "max_tokens": int(data["max_token_len_per_gpu"]) * setting("sp_size", 1),
            "multiple_of": num_batches_divided_by or 1,
            "min_count": min_num_micro_batch or 1,
            "order": "pipeline" if use_dynamic_bsz_balance else "plan",
        },
        lambda numbers: _max_over_ranks(numbers, dp_group if same_micro_num_in_dp else None),
        "Raise max_token_len_per_gpu, or the samples of a mini-batch",
        balance={"cost": COST},
    )
    return [tensordict_utils.index_select_tensor_dict(data, indices) for indices in lists], lists


def tensordict_of(micro_batch: Any, *, responses: Collection[str] = ()) -> Any:
    """Converts the samples of a service's micro-batch to a TensorDict of jagged tensors, in verl's row conventions.

    - Token fields have one row per token. ``loss_mask`` has each value at its own token, since verl's losses shift it; in the
      micro-batch, it is at the row that predicts the token.
    - The fields named in ``responses``, which samples provided as response-token fields, have one row per response token. Other
      response-token fields have one row per token, with each value at the row that predicts its token, as in the micro-batch.
    - ``position_ids`` of several axes are [samples, axes, tokens].
    - ``rows`` fields are jagged, sample fields are tensors, and ``text`` and ``bytes`` fields have one value per sample.
    - ``labels`` and ``loss_weights`` are left out, since verl derives its own.

    The tensors are copies. Raises InputError unless this rank has whole samples (``pack.deliver: samples``), and for a field in
    ``responses`` if a sample has no prompt, since no row predicts its first token. Raises MissingFieldError for unknown names."""
    import torch
    from tensordict import NonTensorStack, TensorDict

    def value_of(name: str, kind: str) -> Any:
        if name == "loss_mask":
            return _jagged([part.roll(1, 0) for part in micro_batch.parts(name)])  # the last row predicts nothing, and has 0
        if kind in ("text", "bytes"):
            return NonTensorStack(*micro_batch[name])
        if kind == "sample":
            return torch.as_tensor(micro_batch[name])
        parts = micro_batch.parts(name)
        if name == "position_ids" and parts[0].ndim == 2:
            return _jagged([part.T for part in parts], 1)
        return _jagged(parts)

    others = {"labels", "loss_weights", *responses}
    fields = {name: value_of(name, kind) for name, kind in micro_batch.kinds().items() if name not in others}
    fields |= {name: _jagged(_response_rows(micro_batch, name)) for name in responses}
    return TensorDict(fields, batch_size=len(micro_batch.samples))


def _jagged(parts: list[Any], ragged: int = 0) -> Any:
    """Returns a nested tensor of parts that differ in this dimension, which PyTorch itself would guess if there is one part."""
    import torch

    ends = torch.tensor([0] + [part.shape[ragged] for part in parts]).cumsum(0)
    return torch.nested.nested_tensor_from_jagged(torch.cat(parts, ragged), ends, jagged_dim=ragged + 1)


def _response_rows(micro_batch: Any, name: str) -> list[Any]:
    """Returns the rows that predict the response of each sample."""
    prompts, responses = micro_batch.prompt_lengths.tolist(), micro_batch.response_lengths.tolist()
    for index, (prompt, response) in enumerate(zip(prompts, responses)):
        if prompt == 0 and response > 0 and not micro_batch.empty:
            refuse(f"field {name!r}", f"has no row for the first token of sample {int(micro_batch.samples[index])}, which has no prompt",
                   "Provide it as a token field")
    return [part[max(0, prompt - 1) : prompt + response - 1] for part, prompt, response in zip(micro_batch.parts(name), prompts, responses)]


def _mini_batches_of(config: Any, samples: int) -> int:
    """Returns the number of the actor's mini-batches in a batch; 1 if the actor shuffles them or the batch is not for the actor."""
    actor = config.actor_rollout_ref.actor
    size = int(actor.ppo_mini_batch_size * config.actor_rollout_ref.rollout.n)
    return 1 if actor.get("shuffle", False) or samples % size != 0 else samples // size


def _length_of(workload: int) -> int:
    """Returns the number of tokens s of a sample with this work, 24576 s + s^2."""
    linear = COST["linear"]
    return (math.isqrt(linear * linear + 4 * workload) - linear) // 2


def _verls_own() -> Any:
    """Returns verl's own prepare_micro_batches, replaced or not."""
    from verl.workers.engine import utils

    return getattr(prepare_micro_batches, "replaced", utils.prepare_micro_batches)


def _lengths_of(data: Any) -> list[int]:
    input_ids = data["input_ids"]
    lengths = input_ids.offsets().diff() if input_ids.is_nested else data["attention_mask"].sum(dim=1)
    return [int(length) for length in lengths.tolist()]


def _max_over_ranks(numbers: list[int], dp_group: Any) -> list[int]:
    """Returns the elementwise maximum over the ranks of the group."""
    import torch

    if dp_group is None or not torch.distributed.is_initialized():
        return numbers
    from verl.utils.device import get_device_name

    largest = torch.tensor(numbers, dtype=torch.long, device=get_device_name())
    torch.distributed.all_reduce(largest, op=torch.distributed.ReduceOp.MAX, group=dp_group)
    return largest.tolist()
