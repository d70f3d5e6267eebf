"""python -m evenkeel.compare runs verl's own balancing of ranks and micro-batches."""

import numpy as np
import pytest
import torch
from tensordict import TensorDict
from verl.utils.seqlen_balancing import rearrange_micro_batches

import compared
from evenkeel import _peers


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("size", [{"samples": 64, "longest": 8192, "dp": 8, "cap": 16384}, {"samples": 256, "longest": 2048, "dp": 16, "cap": 4096}])
def test_verl_keeps_the_cap_and_does_not_end_earlier(tmp_path, seed, size):
    rows = compared.table("verl", tmp_path, seed=seed, **size)
    assert rows["verl 0.9.1, dynamic batches"]["above cap"] == 0
    compared.check_that_none_ends_earlier(rows)


def test_ranks_have_as_many_micro_batches_as_the_one_that_needs_the_most():
    lengths, cap = [7, 7, 7, 1, 1, 1], 9
    ranks = _peers.PEERS["verl"].ways["dynamic batches"](lengths, 2, cap, _peers.Clock())
    assert sorted(piece.sample for rank in ranks for m in rank for piece in m) == list(range(len(lengths)))
    alone = []
    for rank in ranks:
        own = [piece.tokens for micro_batch in rank for piece in micro_batch]
        tokens = torch.nested.nested_tensor_from_jagged(torch.zeros(sum(own)), torch.tensor([0, *np.cumsum(own)]))
        alone.append(len(rearrange_micro_batches(TensorDict({"input_ids": tokens}, batch_size=[len(own)]), cap)[1]))
    assert sorted(alone) == [1, 2] and [len(rank) for rank in ranks] == [2, 2]


def test_the_page_shows_the_actual_output(tmp_path):
    compared.check_page("verl", tmp_path)
