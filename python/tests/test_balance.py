"""Tests of partitions, bins and costs."""

import itertools
import pickle
import threading
import time

import numpy as np
import pytest

import evenkeel
from evenkeel.balance import (
    CostModel,
    Partition,
    karmarkar_karp,
    max_over_mean,
    max_sum_lower_bound,
    min_bins_lower_bound,
    pack_bins,
)

EXAMPLE = [1, 2, 2, 5, 3, 7, 6, 3]


def test_karmarkar_karp_gives_the_example_of_its_header():
    assert karmarkar_karp(EXAMPLE, 4).to_lists() == [[1, 6], [7, 4, 0], [3, 2], [5]]


def test_lists_arrays_and_dtypes_give_the_same():
    expected = karmarkar_karp(EXAMPLE, 4)
    for costs in (tuple(EXAMPLE), np.array(EXAMPLE), np.array(EXAMPLE, dtype=np.int32), np.array(EXAMPLE * 2)[:8]):
        assert karmarkar_karp(costs, 4) == expected


@pytest.mark.parametrize("seed", range(5))
def test_groups_hold_every_item_once_and_are_within_a_cost_of_the_bound(seed):
    random = np.random.default_rng(seed)
    costs = random.integers(0, 1000, size=random.integers(1, 200))
    k = int(random.integers(1, 12))
    partition = karmarkar_karp(costs, k)
    assert sorted(itertools.chain(*partition.to_lists())) == list(range(len(costs)))
    assert len(partition) == k
    sums = partition.sums(costs)
    assert sums.sum() == costs.sum() and sums.max() >= max_sum_lower_bound(costs, k)
    assert sums.max() - sums.min() <= costs.max()


@pytest.mark.parametrize("n, k", [(12, 4), (13, 4), (3, 5)])
def test_equal_counts_differ_by_one_at_most(n, k):
    partition = karmarkar_karp(np.arange(n), k, equal_count=True)
    sizes = [len(group) for group in partition]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("seed", range(5))
def test_bins_are_never_above_their_limits_and_no_fewer_than_the_bound(seed):
    random = np.random.default_rng(seed)
    sizes = random.integers(0, 100, size=60)
    for algorithm in ("first-fit-decreasing", "best-fit-decreasing", "modified-first-fit-decreasing"):
        bins = pack_bins(sizes, 100, max_items=5, algorithm=algorithm)
        assert sorted(itertools.chain(*bins.to_lists())) == list(range(60))
        assert bins.sums(sizes).max() <= 100 and max(len(b) for b in bins) <= 5
        assert len(bins) >= min_bins_lower_bound(sizes, 100, max_items=5)


def test_items_may_count_for_several():
    assert len(pack_bins([1, 1, 1], max_items=4, counts=[2, 2, 2])) == 2
    assert min_bins_lower_bound([1, 1, 1], max_items=4, counts=[2, 2, 2]) == 2


def test_a_partition_is_a_value():
    partition = Partition([[2, 0], [], [1]])
    assert partition.items.tolist() == [2, 0, 1] and partition.offsets.tolist() == [0, 2, 2, 3]
    assert [group.tolist() for group in partition] == [[2, 0], [], [1]]
    assert partition[-1].tolist() == [1] and partition[0].dtype == np.int64
    assert partition.sorted() == Partition([[0, 2], [], [1]]) != partition
    assert pickle.loads(pickle.dumps(partition)) == partition
    assert partition != "a partition"
    with pytest.raises(IndexError, match="group 3 does not exist; there are 3"):
        partition[3]


def test_arrays_of_a_partition_are_copies():
    partition = Partition([[0, 1]])
    partition[0][0] = 9
    partition.items[0] = 9
    assert partition.to_lists() == [[0, 1]]


def test_costs_follow_the_model():
    model = CostModel.flops_7b()
    assert model(3) == 24576 * 3 + 9
    assert model([0, 1, 2]).tolist() == [0, 24577, 49156]
    assert model(np.array([2])).tolist() == [49156]
    assert model(np.int64(2)) == 49156
    assert CostModel(linear=0, quadratic=1, window=4)(10) == 4**2 + 2 * 4 * 6
    assert CostModel(quadratic=1, linear=0).of_group(3, [1, 2]) == 32  # the example of its header
    assert pickle.loads(pickle.dumps(model)) == model and hash(model) == hash(CostModel(linear=24576, quadratic=1))


def test_a_cost_model_comes_from_a_shape():
    small = dict(hidden_size=64, layers=2, heads=4, ffn_size=256, vocab_size=100)
    assert CostModel.from_model(**small).linear > 0
    with pytest.raises(evenkeel.InputError, match="model.layers"):
        CostModel.from_model(**{**small, "layers": 0})


@pytest.mark.parametrize(
    "call, error, what",
    [
        (lambda: karmarkar_karp([1], 0), evenkeel.InputError, "0"),
        (lambda: karmarkar_karp([1, -1], 1), evenkeel.InputError, "-1"),
        (lambda: karmarkar_karp([2**62], 1), evenkeel.InputError, "2\\^62"),
        (lambda: max_sum_lower_bound([1], 0), evenkeel.InputError, "k: is 0; it must be at least 1"),
        (lambda: pack_bins([9], 8), evenkeel.LimitError, "9"),
        (lambda: pack_bins([1], 0), evenkeel.InputError, "max_size: is 0; it must be at least 1"),
        (lambda: pack_bins([1], max_items=0), evenkeel.InputError, "max_items: is 0; it must be at least 1"),
        (lambda: pack_bins([-1], 8), evenkeel.InputError, "-1"),
        (lambda: pack_bins([1], 8, counts=[1, 1]), evenkeel.InputError, "counts"),
        (lambda: pack_bins([1], 8, algorithm="worst-fit"), evenkeel.InputError, "first-fit-decreasing, best"),
        (lambda: min_bins_lower_bound([9], 8), evenkeel.LimitError, "9"),
        (lambda: Partition([[0, 5]]).sums([1, 2]), evenkeel.InputError, "but the partition contains item 5"),
        (lambda: Partition([[-1]]).sums([1, 2]), evenkeel.InputError, "but the partition contains item -1"),
        (lambda: max_over_mean([1, 2], [1]), evenkeel.InputError, "speeds"),
        (lambda: max_over_mean([1, 2], [1, 0]), evenkeel.InputError, r"speeds\[1\]: is 0; it must be at least 1"),
        (lambda: CostModel(linear=-1), evenkeel.InputError, "linear"),
        (lambda: CostModel()(-1), evenkeel.InputError, "tokens"),
        (lambda: CostModel()([1, -1]), evenkeel.InputError, r"tokens\[1\]"),
        (lambda: CostModel(quadratic=1)(2**40), evenkeel.LimitError, "2\\^62"),
        (lambda: CostModel(quadratic=1).of_group(-1, []), evenkeel.InputError, "prefix"),
    ],
)
def test_bad_input_is_an_error_that_names_the_problem(call, error, what):
    with pytest.raises(error, match=what):
        call()


@pytest.mark.parametrize("k", [1.0, "2", None])
def test_a_number_of_groups_must_be_an_int(k):
    with pytest.raises(TypeError):
        karmarkar_karp([1], k)


def test_other_threads_run_meanwhile():
    """While C++ works, another thread must run many times; only a few runs would mean that the lock is held."""
    costs = np.random.default_rng(0).integers(1, 10**9, size=200_000)
    turns, done = 0, threading.Event()

    def count():
        nonlocal turns
        while not done.is_set():
            turns += 1
            time.sleep(0)

    counter = threading.Thread(target=count)
    counter.start()
    before = turns
    karmarkar_karp(costs, 64)
    after = turns
    done.set()
    counter.join()
    assert after - before > 5
