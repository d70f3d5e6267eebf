"""verl's DynamicCPScheduler forms micro-batches with Evenkeel's groups. It checks the groups itself, and no rank exceeds its cap on tokens."""

import numpy as np
import pytest
import torch
from tensordict import TensorDict
from verl.utils import dynamic_cp_scheduler as verls

import evenkeel.verl
from evenkeel.megatron import DynamicCPScheduler

RANKS, CAP = 8, 512


@pytest.fixture
def installed(monkeypatch):
    monkeypatch.setattr(verls, "get_megatron_dynamic_cp_scheduler_cls", verls.get_megatron_dynamic_cp_scheduler_cls)
    evenkeel.verl.install_dynamic_cp()


class Group:
    """The methods that verl calls on a process group of all DPxCP ranks."""

    def __init__(self, rank):
        self.rank, self.size = (lambda: rank), (lambda: RANKS)


def batch(lengths):
    rows = [torch.full((length,), index) for index, length in enumerate(lengths)]
    return TensorDict({"input_ids": torch.nested.as_nested_tensor(rows, layout=torch.jagged)}, batch_size=len(lengths))


def micro_batches(lengths):
    """Returns, by micro-batch and rank, what each rank gets from verl's scheduler."""
    scheduler = verls.DynamicCPScheduler(max_seqlen_per_dp_cp_rank=CAP, dp_size=4, cp_size=2)
    return list(zip(*(scheduler.schedule(batch(lengths), Group(rank), tp_size=1) for rank in range(RANKS))))


@pytest.mark.parametrize("seed", range(10))
def test_every_sample_is_in_one_group_and_no_rank_exceeds_its_tokens(installed, seed):
    lengths = np.random.RandomState(seed).lognormal(5.5, 1.2, size=40).astype(int).clip(1, RANKS * CAP - 16)
    led = []
    for column in micro_batches(lengths):
        for part in column:
            ids = [int(row[0]) for row in part["input_ids"].unbind()]
            assert ids == list(part[verls.DCP_SAMPLE_IDS]) and len(part[verls.DCP_PADDING_MASK]) <= CAP
            led += ids if part[verls.DCP_GROUP_LEADER] else []
        trained = {sample for part in column for sample in part[verls.DCP_SAMPLE_IDS]}
        assert sum(part[verls.DCP_LOCAL_NUM_TOKENS] for part in column) == lengths[list(trained)].sum()
    assert sorted(led) == list(range(40))


def test_groups_have_the_sizes_that_samples_need(installed):
    sizes = {part["local_cp_size"] for column in micro_batches([RANKS * CAP - 16] + [8] * 40) for part in column}
    assert RANKS in sizes


def test_ranks_without_samples_join_a_group(installed):
    (column,) = micro_batches([100])
    assert [part["local_cp_size"] for part in column] == [RANKS] * RANKS


def test_numbers_of_micro_batches_follow_virtual_stages():
    planned = DynamicCPScheduler(CAP, 2, 4, microbatch_group_size_per_vp_stage=4).get_groups_and_subsamples(list(enumerate([300] * 40)))
    assert len(planned) % 4 == 0 and {sample for column in planned for rank in column for sample in rank} == set(range(40))


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: DynamicCPScheduler(CAP, 3, 2), "cp_size . dp_size: is 3 . 2, but the number of ranks must be a power of two"),
        (lambda: DynamicCPScheduler(CAP, 0, 4), "is 0 . 4, but the number of ranks must be a power of two"),
        (lambda: DynamicCPScheduler(CAP, 2, 4, mesh={"dp": 4}), "mesh: cannot be set, since the arguments of the schedule decide it"),
        (lambda: DynamicCPScheduler(CAP, 2, 4, balance={"strategy": "tree"}), "balance.strategy: is 'tree', but this schedule needs 'grid'"),
        (lambda: DynamicCPScheduler(CAP, 2, 4, 4).get_groups_and_subsamples([(0, 5)]), "sample_id_seqlens: has 1 sample for 4 micro-batches"),
    ],
)
def test_impossible_plans_are_refused(call, text):
    with pytest.raises(evenkeel.InputError, match=text):
        call()
