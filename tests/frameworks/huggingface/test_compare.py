"""python -m evenkeel.compare runs the code of Transformers, TRL, Megatron-Core and torchtitan."""

import pytest
from transformers.trainer_pt_utils import BatchRebalanceSampler

import compared
from evenkeel import _peers

PACKAGES = "transformers,trl,megatron-core,torchtitan"
SIZES = [{"samples": 64, "longest": 8192, "dp": 8, "cap": 16384}, {"samples": 256, "longest": 2048, "dp": 16, "cap": 4096}]


@pytest.fixture(scope="module", params=[(size, seed) for size in SIZES for seed in range(2)], ids=str)
def rows(request, tmp_path_factory):
    size, seed = request.param
    return compared.table(PACKAGES, tmp_path_factory.mktemp("lengths"), seed=seed, **size)


def test_no_framework_ends_earlier(rows):
    assert len(rows) == 9
    compared.check_that_none_ends_earlier(rows)


def test_only_padded_batches_of_varying_sizes_break_the_cap(rows):
    broken = {name for name, row in rows.items() if row["above cap"]}
    assert broken <= {"transformers 5.24.0, batch_rebalance"}
    assert all(row["fullest"] <= 1 for name, row in rows.items() if name not in broken)


def test_batch_rebalance_breaks_the_cap(tmp_path):
    row = compared.table("transformers", tmp_path, seed=1, **SIZES[1])["transformers 5.24.0, batch_rebalance"]
    assert row["above cap"] > 0 and row["fullest"] > 1


def test_each_framework_has_its_known_properties(rows):
    padded = [name for name, row in rows.items() if row["padding"]]
    assert padded and all(name.startswith("transformers") for name in padded)
    assert rows["transformers 5.24.0, random"]["padding"] > rows["transformers 5.24.0, group_by_length"]["padding"]
    assert rows["trl 1.16.0, wrapped"]["cut"] > 0 and rows["trl 1.16.0, bfd"]["cut"] == 0
    assert rows["megatron-core 0.16.1, hybrid CP"]["micro-batches"] > rows["trl 1.16.0, bfd"]["micro-batches"]


def test_batch_rebalance_equals_the_output_of_the_sampler_on_each_rank():
    lengths = [3 + index * 37 % 50 for index in range(64)]
    ranks = _peers.PEERS["transformers"].ways["batch_rebalance"](lengths, 4, 104, _peers.Clock())
    samplers = [BatchRebalanceSampler(lengths, 64, 4, 8, rank=rank, shuffle=False) for rank in range(4)]
    assert [[[piece.sample for piece in m] for m in rank] for rank in ranks] == [list(sampler) for sampler in samplers]


def test_megatrons_ranks_share_the_samples_of_a_group_that_is_too_small():
    ranks = _peers.PEERS["megatron-core"].ways["hybrid CP"]([8, 8], 4, 8, _peers.Clock())
    assert ranks == [[[_peers.Piece(0, 8, ranks=2)]]] * 2 + [[[_peers.Piece(1, 8, ranks=2)]]] * 2


@pytest.mark.parametrize("packages", [PACKAGES, "transformers"])
def test_the_page_shows_the_actual_output(tmp_path, packages):
    compared.check_page(packages, tmp_path)
