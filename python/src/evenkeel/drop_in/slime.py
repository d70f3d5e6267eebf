"""slime.utils.dp_schedule.build_dp_schedule, which is miles.utils.dp_schedule.build_dp_schedule in miles.

    import slime.ray.rollout
    from evenkeel.drop_in.slime import build_dp_schedule
    slime.ray.rollout.build_dp_schedule = build_dp_schedule

Imports neither slime nor torch. Unlike the results of other drop-in functions, schedules are not slime's: evenkeel.plan plans the
micro-batches of a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenkeel._c import refuse
from evenkeel._text import counted
from evenkeel.drop_in._schedules import plan_without_empty

__all__ = ["build_dp_schedule"]


def build_dp_schedule(
    args: Any,
    train_parallel_config: dict[str, Any],
    total_lengths: Sequence[int],
    *,
    global_batch_size: int,
    rollout_indices: Sequence[int],
    sample_is_multimodal: Sequence[bool] | None = None,
    **sections: Any,
) -> tuple[list[list[int]], list[list[list[int]]], list[int], list[int]]:
    """Divides samples into steps of ``global_batch_size`` rollouts, and plans the micro-batches of each step for all DP ranks.

    Each micro-batch has at most ``args.max_tokens_per_gpu * cp_size`` tokens, times ``args.packing_safety_margin`` if that is set.
    All ranks have the same number of micro-batches in a step, a multiple of ``microbatch_group_size_per_vp_stage`` with virtual
    pipeline stages, and none is empty. The cap holds and ranks are balanced regardless of ``args.balance_data`` and
    ``args.balance_by_flops``. ``sections`` are settings of evenkeel.plan, such as ``balance={"cost": {"model": {...}}}``; the work
    of a sample is by default ``balance={"cost": "flops-7b"}``.

    Samples with equal ``rollout_indices`` stay in one step. Rollouts after the last whole step are dropped, as in slime. With miles'
    ``args.allow_partial_train_step``, they are a step of their own if they have a sample for each rank.

    Returns, as slime does:

    - the samples of each rank, in the order of its micro-batches;
    - the micro-batches of each rank, over all steps, as positions in its samples;
    - the number of micro-batches per rank of each step;
    - the number of rollouts of each step.

    Raises LimitError for a sample above the cap, which slime puts into its own micro-batch. Raises InputError without
    ``args.use_dynamic_batch_size``, with ``args.global_batch_tokens``, for multimodal samples that
    ``args.multimodal_aware_packing`` would separate, for fewer rollouts than a step has, and for a step with fewer samples than
    micro-batches.
    """
    dp = train_parallel_config["dp_size"]
    cap = _cap_of(args, train_parallel_config["cp_size"])
    multiple = train_parallel_config["microbatch_group_size_per_vp_stage"] if (train_parallel_config["vpp_size"] or 1) > 1 else 1
    _require_supported(args, sample_is_multimodal)
    rollouts = _rollouts_of(rollout_indices, len(total_lengths))
    sizes = _sizes_of_steps(args, rollouts, global_batch_size, dp)

    partitions: list[list[int]] = [[] for _ in range(dp)]
    micro_batches: list[list[list[int]]] = [[] for _ in range(dp)]
    counts = []
    for number, size in enumerate(sizes):
        samples = [sample for rollout in rollouts[number * global_batch_size :][:size] for sample in rollout]
        lengths = [int(total_lengths[sample]) for sample in samples]
        ranks = plan_without_empty(lengths, dp, {"max_tokens": cap, "multiple_of": multiple}, sections, f"step {number}")
        counts.append(len(ranks[0]))
        for rank, partition, own in zip(ranks, partitions, micro_batches):
            for part in rank:
                own.append(list(range(len(partition), len(partition) + len(part))))
                partition.extend(samples[i] for i in part)
    return partitions, micro_batches, counts, sizes


def _cap_of(args: Any, cp: int) -> int:
    if not args.use_dynamic_batch_size:
        refuse("args.use_dynamic_batch_size", "is off, so micro-batches have a fixed number of samples and there is nothing to plan",
               "Use slime's own function, or --use-dynamic-batch-size")
    if args.max_tokens_per_gpu is None:
        refuse("args.max_tokens_per_gpu", "is missing, but it is the cap of a micro-batch", "Set --max-tokens-per-gpu")
    return max(1, int(args.max_tokens_per_gpu * cp * getattr(args, "packing_safety_margin", 1.0)))


def _require_supported(args: Any, sample_is_multimodal: Sequence[bool] | None) -> None:
    if getattr(args, "global_batch_tokens", None) is not None:
        refuse("args.global_batch_tokens", "is set, but only steps with a fixed number of rollouts are supported", "Use slime's own function")
    if getattr(args, "multimodal_aware_packing", "off") != "off" and any(sample_is_multimodal or ()):
        refuse("args.multimodal_aware_packing",
               f"is {args.multimodal_aware_packing!r}, but samples with and without images would share micro-batches",
               "Use slime's own function")


def _rollouts_of(rollout_indices: Sequence[int], num_samples: int) -> list[list[int]]:
    """Returns the samples of each rollout, in the order in which rollouts first appear."""
    if len(rollout_indices) != num_samples:
        refuse("rollout_indices", f"has {counted(len(rollout_indices), 'entry', 'entries')} for {counted(num_samples, 'sample')}")
    rollouts: dict[int, list[int]] = {}
    for sample, rollout in enumerate(rollout_indices):
        rollouts.setdefault(rollout, []).append(sample)
    return list(rollouts.values())


def _sizes_of_steps(args: Any, rollouts: list[list[int]], global_batch_size: int, dp: int) -> list[int]:
    if not 1 <= global_batch_size <= len(rollouts):
        refuse("global_batch_size", f"is {global_batch_size}; it must be at least 1 and at most the number of rollouts, {len(rollouts)}")
    whole, rest = divmod(len(rollouts), global_batch_size)
    is_step = getattr(args, "allow_partial_train_step", False) and rest > 0 and sum(map(len, rollouts[-rest:])) >= dp
    return [global_batch_size] * whole + [rest] * is_step
