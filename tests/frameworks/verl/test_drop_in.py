"""The drop-in functions for verl give the same results as the package's own for random lengths, including ties."""

import numpy as np
import pytest
import torch
from verl.utils import seqlen_balancing as package

from evenkeel.drop_in import verl as ours

SEEDS = range(20)


@pytest.fixture(params=SEEDS)
def lengths(request):
    random = np.random.RandomState(request.param)
    return random.lognormal(3, 1, size=48).astype(int).clip(1, 40 if request.param % 2 else 500).tolist()  # odd seeds give many ties


@pytest.mark.parametrize("equal_size", [False, True])
@pytest.mark.parametrize("name", ["karmarkar_karp", "greedy_partition", "get_seqlen_balanced_partitions"])
def test_partitions(lengths, name, equal_size):
    of_both = [getattr(module, name)(lengths, 6, equal_size) for module in (ours, package)]
    assert of_both[0] == of_both[1]


def test_partitions_of_whole_groups(lengths):
    uids = [f"prompt {index // 4}" for index in range(len(lengths))]
    of_both = [module.get_group_balanced_partitions(lengths, uids, 4) for module in (ours, package)]
    assert of_both[0] == of_both[1]


def test_metrics(lengths):
    partitions = package.get_seqlen_balanced_partitions(lengths, 6, True)
    of_both = [module.log_seqlen_unbalance(lengths, partitions, "global_seqlen") for module in (ours, package)]
    assert of_both[0] == of_both[1]


def test_workloads(lengths):
    assert torch.equal(ours.calculate_workload(torch.tensor(lengths)), package.calculate_workload(torch.tensor(lengths)))


def test_restored_order(lengths):
    lists = package.get_seqlen_balanced_partitions(lengths, 6, False)
    data = torch.tensor([lengths[index] for part in lists for index in part])
    assert ours.restore_dynamic_batch(data, lists).tolist() == package.restore_dynamic_batch(data, lists).tolist() == lengths
    order = [index for part in lists for index in part]
    assert ours.get_reverse_idx(order) == package.get_reverse_idx(order)
