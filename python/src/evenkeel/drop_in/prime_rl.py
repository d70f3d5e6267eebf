"""prime_rl.trainer.batch.prepare_batch.

    import prime_rl.orchestrator.packing
    from evenkeel.drop_in.prime_rl import prepare_batch
    prime_rl.orchestrator.packing.prepare_batch = prepare_batch

prime-rl's own functions (of its commit 559b447) truncate samples, join them into micro-batches and pad these. evenkeel.plan determines
which samples of text share a micro-batch, and which worker gets it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from evenkeel._c import refuse
from evenkeel.drop_in._schedules import plan_micro_batches

__all__ = ["prepare_batch"]


def prepare_batch(
    rollouts: list[Any],
    seq_len: int,
    num_train_workers: int,
    bin_cost: Callable[[Sequence[int]], int],
    pad_to_multiple_of: int = 1,
    **sections: Any,
) -> list[list[Any]]:
    """Returns the micro-batches of each training worker: equal numbers, of at most ``seq_len`` tokens before padding.

    ``sections`` are settings of evenkeel.plan. By default, workers synchronize at every micro-batch, as with FSDP, and the work of a
    sample is ``bin_cost`` of its length. Raises InputError if that is not a*s + b*s^2 of a length s, with a, b >= 0.

    As in prime-rl, longer samples are truncated, micro-batches with images come first, and workers with fewer micro-batches get
    additional ones without loss. Samples of text do not share micro-batches with images here. Raises InputError if only some have
    routed experts.
    """
    from prime_rl.trainer import batch as theirs

    def padded(micro_batch: Any) -> Any:
        made = theirs.pad_micro_batch(micro_batch, pad_to_multiple_of)
        theirs._assert_token_arrays_aligned(made)
        return made

    def concatenate(samples: list[Any]) -> Any:
        return padded(theirs._materialize_bin(theirs._MicroBatchBin(samples, sum(map(_length_of, samples)))))

    samples = [theirs.prepare_sample(rollout, seq_len) for rollout in rollouts]
    images = [sample for sample in samples if sample.mm_kwargs is not None]
    of_images = [padded(each) for each in theirs.packed_samples_into_micro_bs(images, seq_len, num_train_workers, bin_cost)]
    workers: list[list[Any]] = theirs._distribute_group(
        theirs._pad_group_for_distribution(of_images, num_train_workers), num_train_workers, bin_cost
    )
    balance: dict[str, Any] = {"meet": "micro-batch", **sections.get("balance", {})}
    if "cost" not in balance:
        balance["cost"] = _cost_of(bin_cost, seq_len)
    texts = [sample for sample in samples if sample.mm_kwargs is None]
    if len({sample.routed_experts is None for sample in texts}) > 1:
        refuse("rollouts", "have routed experts in some samples only, but samples with and without them cannot share micro-batches",
               "Use prime-rl's own function")
    if not texts:
        return workers
    ranks = plan_micro_batches(list(map(_length_of, texts)), num_train_workers, {"max_tokens": seq_len}, {**sections, "balance": balance})
    made = [[concatenate([texts[index] for index in part]) if part else None for part in rank] for rank in ranks]
    without_loss = theirs._make_dummy_batch(next(each for rank in made for each in rank if each is not None))
    for worker, rank in zip(workers, made):
        worker.extend(without_loss if each is None else each for each in rank)
    return workers


def _length_of(sample: Any) -> int:
    return len(sample.input_ids)


def _cost_of(bin_cost: Callable[[Sequence[int]], int], longest: int) -> dict[str, int]:
    """Returns the coefficients of linear*s + quadratic*s^2, in units of the quadratic one, or of the linear one if that is 0."""
    quadratic = (bin_cost([2]) - 2 * bin_cost([1])) / 2
    linear = bin_cost([1]) - quadratic
    hint = 'Pass balance={"cost": {"linear": a, "quadratic": b}}'
    if abs(linear * longest + quadratic * longest**2 - bin_cost([longest])) > 1e-6 * abs(bin_cost([longest])):
        refuse("bin_cost", "is not a*s + b*s^2 for a sample of length s", hint)
    if linear < 0 or quadratic < 0:
        refuse("bin_cost", f"is {linear:g}*s + {quadratic:g}*s^2 for a sample of length s; coefficients cannot be negative", hint)
    return {"linear": round(linear / quadratic), "quadratic": 1} if quadratic else {"linear": 1, "quadratic": 0}
