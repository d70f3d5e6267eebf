"""Drop-in functions, and evenkeel.packing's cuts, give the same results as the other projects' own code. Cases with several
ranks are in test_ranks.py."""

import pytest

from evenkeel import InputError
from golden import cases_of, difference, families
from golden_families import FAMILIES, STRICT, keeps_promise, run


def single_rank_cases():
    for family in FAMILIES:
        for case in cases_of(family):
            if not case["input"].get("other_ranks"):
                yield pytest.param(family, case, id=f"{family}-{case['name']}")


def test_every_family_of_the_vectors_is_run():
    assert set(FAMILIES) == set(families())


@pytest.mark.parametrize("family, case", tuple(single_rank_cases()))
def test_strict_reference_gives_the_results_of_the_reference(family, case):
    if family not in STRICT and "defect" in case:
        return  # differs from the reference on purpose; see PROMISED
    assert difference(case["expected"], run(family, case["input"], True), exact_errors=family in STRICT) is None


@pytest.mark.parametrize("family, case", tuple(single_rank_cases()))
def test_the_default_keeps_the_promise_and_equals_the_reference_if_that_keeps_it(family, case):
    actual = run(family, case["input"], False)
    assert keeps_promise(family, case["input"], actual)
    if "defect" not in case and keeps_promise(family, case["input"], case["expected"]):
        assert difference(case["expected"], actual, exact_errors=False) is None


# Cases in which a reference contradicts its own documentation, with the documented result.
PROMISED = {
    ("group_balanced", "noncontiguous_uid"): InputError,  # two uids need three parts
    ("roll_pack", "left_padded_quirk"): {"packed_per_cp_rank": [[5, 6]]},
    ("remove_padding", "quirk_mask_not_right_padded"): {"input_ids_packed": [[11, 12, 13, 0, 21, 22, 23, 24]]},
    ("roll_batch_balance", "keep_drops_tail"): {"order": [2, 3, 4, 1, 0]},
    ("roll_batch_balance", "minibatch_gt_batch"): {"order": [1, 0]},
    ("cp_thd_indices", "not_divisible"): InputError,  # otherwise tokens would be lost
    ("cp_thd_indices", "cp1"): {"te_kernel_indices": [[0, 1, 2, 3, 4, 5, 6, 7]]},
    ("mindspeed_cp_batch", "hybrid_ring1"): {"ring_degree": 1},
    ("mindspeed_cp_batch", "hybrid_bad_degree"): InputError,
    ("mindspeed_cp_batch", "eod_not_divisible_drops_middle"): InputError,
    ("remove_padding", "quirk_prompt_gt_len_not_truncated"): InputError,
}


@pytest.mark.parametrize("family, name", PROMISED)
def test_documented_results_replace_those_of_a_reference_that_contradicts_them(family, name):
    (case,) = (case for case in cases_of(family) if case["name"] == name)
    promised, actual = PROMISED[family, name], run(family, case["input"], False)
    assert "defect" in case
    if promised is InputError:
        assert "error" in actual
    else:
        assert difference(promised, actual, exact_errors=True) is None
