"""Tests the planning functions for slime, miles, NeMo-RL and prime-rl. The projects' own tests assert the same about schedules
and bins."""

import copy
import dataclasses
import random
import sys
import types

import pytest

import evenkeel
from evenkeel.drop_in.nemo_rl import Packer
from evenkeel.drop_in.prime_rl import prepare_batch
from evenkeel.drop_in.slime import build_dp_schedule


def arguments(**more):
    return types.SimpleNamespace(**{"use_dynamic_batch_size": True, "max_tokens_per_gpu": 4096, "balance_data": True} | more)


def parallel(dp, cp=1, vpp=1, group=1):
    return {"dp_size": dp, "cp_size": cp, "vpp_size": vpp, "microbatch_group_size_per_vp_stage": group}


def lengths_of(count, seed=0):
    draw = random.Random(seed)
    return [min(int(draw.lognormvariate(6, 1)) + 1, 4096) for _ in range(count)]


@pytest.mark.parametrize("dp, cp, vpp, group, step", [(4, 1, 1, 1, 64), (8, 2, 1, 1, 32), (2, 1, 2, 4, 128)])
def test_a_schedule_of_slime_holds_each_sample_of_whole_steps_once_within_the_cap(dp, cp, vpp, group, step):
    lengths = lengths_of(300)
    partitions, micro_batches, counts, sizes = build_dp_schedule(
        arguments(), parallel(dp, cp, vpp, group), lengths, global_batch_size=step, rollout_indices=list(range(300)))
    steps = 300 // step
    assert sizes == [step] * steps and len(counts) == steps
    assert sorted(sum(partitions, [])) == list(range(steps * step))
    for partition, own in zip(partitions, micro_batches):
        assert len(own) == sum(counts) and sum(own, []) == list(range(len(partition)))
        assert all(1 <= sum(lengths[partition[i]] for i in micro_batch) <= 4096 * cp for micro_batch in own)
        begin = 0
        for number, count in enumerate(counts):
            assert count % group == 0
            samples = [partition[i] for micro_batch in own[begin : begin + count] for i in micro_batch]
            assert set(samples) <= set(range(number * step, (number + 1) * step))
            begin += count


def test_samples_of_a_rollout_stay_in_one_step_whatever_their_order():
    partitions, _, counts, sizes = build_dp_schedule(
        arguments(), parallel(2), [10, 20, 30, 40, 50, 60], global_batch_size=2, rollout_indices=[7, 5, 7, 9, 5, 8])
    assert sizes == [2, 2] and counts == [1, 1]
    first = sorted(sample for partition in partitions for sample in partition if sample in {0, 1, 2, 4})
    assert first == [0, 1, 2, 4] and sorted(sum(partitions, [])) == [0, 1, 2, 3, 4, 5]


def test_a_rank_with_one_long_sample_gets_a_short_one_for_its_second_micro_batch():
    lengths = [4096] + [1000] * 6
    _, micro_batches, counts, _ = build_dp_schedule(
        arguments(), parallel(2), lengths, global_batch_size=7, rollout_indices=list(range(7)),
        balance={"cost": {"linear": 1, "quadratic": 9}})
    assert counts == [2] and all(micro_batch for own in micro_batches for micro_batch in own)


@pytest.mark.parametrize("dp, sizes", [(1, [2, 2, 1]), (2, [2, 2])])
def test_the_rollouts_that_are_left_are_a_step_of_miles_if_each_rank_gets_a_sample(dp, sizes):
    partitions, _, counts, found = build_dp_schedule(
        arguments(allow_partial_train_step=True), parallel(dp), [3] * 5, global_batch_size=2, rollout_indices=[0, 1, 2, 3, 4])
    assert found == sizes and len(counts) == len(sizes)
    assert sorted(sum(partitions, [])) == list(range(sum(sizes)))


def test_the_safety_margin_lowers_the_cap():
    options = arguments(packing_safety_margin=0.5)
    with pytest.raises(evenkeel.LimitError, match="2049"):
        build_dp_schedule(options, parallel(1), [2049], global_batch_size=1, rollout_indices=[0])


@pytest.mark.parametrize("options, lengths, more, message", [
    ({"use_dynamic_batch_size": False}, [1, 2], {}, "args.use_dynamic_batch_size: is off"),
    ({"max_tokens_per_gpu": None}, [1, 2], {}, "args.max_tokens_per_gpu: is missing"),
    ({"global_batch_tokens": 100}, [1, 2], {}, "args.global_batch_tokens: is set"),
    ({"multimodal_aware_packing": "separate"}, [1, 2], {"sample_is_multimodal": [True, False]}, "is 'separate'"),
    ({}, [1, 2], {"micro_batch": {"max_tokens": 9999}}, "micro_batch.max_tokens: is decided by the framework"),
    ({}, [1, 2], {"micro_batch": {"equal_counts": "auto"}}, "micro_batch.equal_counts: is decided by the framework"),
    ({}, [1, 2], {"mesh": {"dp": 4}}, "mesh: is decided by the framework"),
    ({}, [1, 2], {"batch": {"mini_batches": 2}}, "batch: is decided by the framework"),
    ({}, [1, 2], {"global_batch_size": 3}, "is 3; it must be at least 1 and at most the number of rollouts, 2"),
    ({}, [1, 2], {"rollout_indices": [0]}, "has 1 entry for 2 samples"),
    ({}, [1], {"global_batch_size": 1, "rollout_indices": [0]}, "step 0: has 1 sample for 2 micro-batches on 2 ranks"),
])
def test_unsupported_settings_of_slime_are_refused(options, lengths, more, message):
    settings = {"global_batch_size": 2, "rollout_indices": [0, 1]} | more
    with pytest.raises(evenkeel.InputError, match=message):
        build_dp_schedule(arguments(**options), parallel(2), lengths, **settings)


@pytest.mark.parametrize("multiple, least, most", [(4, 4, None), (8, 24, None), (None, None, None), (4, 4, 3)])
def test_nemo_rl_gets_the_requested_number_of_bins_balanced_over_ranks(multiple, least, most):
    lengths = lengths_of(128, seed=1)
    bins = Packer(4096, min_bin_count=least, bin_count_multiple=multiple, max_sequences_per_bin=most).pack(lengths)
    assert len(bins) % (multiple or 1) == 0 and len(bins) >= (least or 1)
    assert sorted(sum(bins, [])) == list(range(128))
    assert all(1 <= sum(lengths[i] for i in one) <= 4096 and len(one) <= (most or 128) for one in bins)
    ranks = [sum(bins[rank :: multiple or 1], []) for rank in range(multiple or 1)]
    work = [sum(24576 * lengths[i] + lengths[i] ** 2 for i in rank) for rank in ranks]
    assert max(work) * len(work) <= 1.02 * sum(work)


def test_too_few_sequences_and_one_above_the_capacity_are_errors_for_nemo_rl():
    with pytest.raises(evenkeel.InputError, match="has 3 samples for 4 micro-batches"):
        Packer(100, bin_count_multiple=4).pack([1, 2, 3])
    with pytest.raises(evenkeel.LimitError, match="101"):
        Packer(100).pack([1, 101])
    with pytest.raises(evenkeel.InputError, match="collect_metrics: is True"):
        Packer(100, collect_metrics=True)


@dataclasses.dataclass
class JoinedSample:
    """A sample or a micro-batch of prime-rl: its tokens, of which it counts those with loss."""

    input_ids: list
    sequence_lengths: list
    tokens_with_loss: int
    mm_kwargs: dict | None = None
    routed_experts: object = None


@pytest.fixture
def prime_rl(monkeypatch):
    """Replaces prime_rl.trainer.batch."""

    def prepare_sample(rollout, seq_len):
        number, length, *more = rollout
        length = min(length, seq_len)
        return JoinedSample([number] * length, [length], length, *more)

    def materialize(bin_):
        lengths = [len(sample.input_ids) for sample in bin_.samples]
        assert bin_.length == sum(lengths)
        tokens = [token for sample in bin_.samples for token in sample.input_ids]
        return JoinedSample(tokens, lengths, len(tokens), bin_.samples[0].mm_kwargs, bin_.samples[0].routed_experts)

    def pad(micro_batch, multiple):
        micro_batch.input_ids += [-1] * (-len(micro_batch.input_ids) % multiple)
        return micro_batch

    def without_loss(source):
        return dataclasses.replace(copy.deepcopy(source), tokens_with_loss=0)

    def padded_group(group, workers):
        return group + [without_loss(group[0])] * (-len(group) % workers) if group else group

    module = types.ModuleType("prime_rl.trainer.batch")
    vars(module).update(
        prepare_sample=prepare_sample, _materialize_bin=materialize, pad_micro_batch=pad, _make_dummy_batch=without_loss,
        _MicroBatchBin=lambda samples, length: types.SimpleNamespace(samples=samples, length=length),
        _assert_token_arrays_aligned=lambda micro_batch: None, _pad_group_for_distribution=padded_group,
        _distribute_group=lambda group, workers, bin_cost: [group[worker::workers] for worker in range(workers)],
        packed_samples_into_micro_bs=lambda samples, *settings: [dataclasses.replace(sample) for sample in samples],
    )
    for name in ("prime_rl", "prime_rl.trainer", "prime_rl.trainer.batch"):
        monkeypatch.setitem(sys.modules, name, module if name.endswith("batch") else types.ModuleType(name))
    vars(sys.modules["prime_rl.trainer"])["batch"] = module


def work_of(lengths):
    return sum(7_000_000 * length + 300 * length**2 for length in lengths)


@pytest.mark.parametrize("workers, cost", [(1, sum), (4, work_of), (8, work_of)])
def test_workers_of_prime_rl_get_each_sample_once_in_even_micro_batches_within_the_cap(prime_rl, workers, cost):
    lengths = lengths_of(200)
    batch = prepare_batch([*enumerate(lengths)], 4096, workers, cost, pad_to_multiple_of=64)
    assert len({len(own) for own in batch}) == 1
    parts = [part for own in batch for part in own]
    tokens = sorted(token for part in parts for token in part.input_ids if token >= 0)
    assert tokens == [number for number, length in enumerate(lengths) for _ in range(length)]
    assert all(sum(part.sequence_lengths) <= 4096 and len(part.input_ids) % 64 == 0 for part in parts)
    slowest = sum(max(cost(part.sequence_lengths) for part in at_once) for at_once in zip(*batch))
    assert slowest * workers <= 1.1 * cost(lengths)


def test_images_of_prime_rl_come_first_and_workers_without_samples_run_without_loss(prime_rl):
    batch = prepare_batch([(0, 9, {"pixel_values": 1}), (1, 5), (2, 9000)], 4096, 3, sum)
    assert [[part.mm_kwargs is not None for part in own] for own in batch] == [[True, False]] * 3
    assert sorted(own[0].tokens_with_loss for own in batch) == [0, 0, 9]
    assert sorted(own[1].tokens_with_loss for own in batch) == [0, 5, 4096]
    images_alone = prepare_batch([(0, 9, {"pixel_values": 1})], 4096, 2, sum)
    assert [len(own) for own in images_alone] == [1, 1]


def test_unsupported_settings_of_prime_rl_are_refused(prime_rl):
    with pytest.raises(evenkeel.InputError, match="rollouts: have routed experts in some samples only"):
        prepare_batch([(0, 5), (1, 5, None, "experts")], 4096, 2, sum)
    with pytest.raises(evenkeel.InputError, match=r"bin_cost: is not a\*s \+ b\*s\^2 for a sample of length s"):
        prepare_batch([(0, 5)], 4096, 2, lambda lengths: sum(length**3 for length in lengths))
    with pytest.raises(evenkeel.InputError, match=r"bin_cost: is 5\*s \+ -1\*s\^2 .*; coefficients cannot be negative"):
        prepare_batch([(0, 5)], 4096, 2, lambda lengths: sum(5 * length - length**2 for length in lengths))
    with pytest.raises(evenkeel.InputError, match="micro_batch.max_tokens: is decided by the framework"):
        prepare_batch([(0, 5)], 4096, 2, sum, micro_batch={"max_tokens": 9})
    assert prepare_batch([(0, 5)], 4096, 1, lambda lengths: sum(length**3 for length in lengths), balance={"cost": "tokens"})
