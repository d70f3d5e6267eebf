"""Ranks of torch.distributed agree on their number of micro-batches. The test uses real processes over gloo."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from golden import cases_of, difference, is_error
from golden_families import keeps_promise

PROGRAM = pathlib.Path(__file__).with_name("rank_program.py")
KEYS = {  # names under which a case has its lengths, its result, and the other ranks' results
    "rearrange_micro_batches": ("seqlen_list", "partitions", "other_ranks_partitions"),
    "verl_rearrange_micro_batches": ("seqlens", "micro_bsz_idx", "other_ranks_micro_bsz_idx"),
    "roll_sequence_packing": ("lengths", "partition_indices_list", "other_ranks_partition_indices_list"),
}


def results_of(size, folder):
    """Returns the results that each of ``size`` processes wrote."""
    variables = {**os.environ, "WORLD_SIZE": str(size), "GLOO_SOCKET_IFNAME": "lo"}
    ranks = [subprocess.Popen([sys.executable, PROGRAM, folder], env={**variables, "RANK": str(rank)},
                              stderr=subprocess.PIPE, text=True) for rank in range(size)]
    try:
        errors = [rank.communicate(timeout=200)[1] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0] * size, "\n".join(errors)
    return [json.loads((folder / f"{rank}.json").read_text(encoding="utf-8")) for rank in range(size)]


@pytest.fixture(scope="module", params=[2, 4])
def ranks(request, tmp_path_factory):
    return results_of(request.param, tmp_path_factory.mktemp("ranks"))


def golden_cases(size):
    for family in KEYS:
        for case in cases_of(family):
            if len(case["input"]["other_ranks"]) == size - 1:
                yield family, case


def case_for_rank(family, case, rank):
    """Returns a case's input and expected result for that rank, or None if the vectors do not contain them."""
    lengths, result, others = KEYS[family]
    if rank == 0:
        return case["input"], case["expected"]
    given = {**case["input"], lengths: case["input"]["other_ranks"][rank - 1]}
    if others not in case["expected"]:
        return given, None
    partitions = case["expected"][others][rank - 1]
    return given, partitions if is_error(partitions) else {result: partitions}


def test_strict_reference_gives_the_results_of_the_reference(ranks):
    compared = 0
    for family, case in golden_cases(len(ranks)):
        for rank, results in enumerate(ranks):
            actual = results["golden"][f"{family}/{case['name']}"][0]
            _, expected = case_for_rank(family, case, rank)
            if expected is None:
                continue
            expected = {key: value for key, value in expected.items() if not key.startswith(("local_num", "other_ranks"))}
            assert difference(expected, actual, exact_errors=True) is None, (family, case["name"], rank)
            compared += 1
    assert compared > 50


def test_the_default_keeps_the_promise_and_equals_the_reference_if_that_keeps_it_on_every_rank(ranks):
    same = 0
    for family, case in golden_cases(len(ranks)):
        actual = [results["golden"][f"{family}/{case['name']}"][1] for results in ranks]
        given, expected = zip(*(case_for_rank(family, case, rank) for rank in range(len(ranks))))
        for rank in range(len(ranks)):
            found = {"pad_factor": case["expected"].get("pad_factor"), **actual[rank]}
            assert keeps_promise(family, given[rank], found), (family, case["name"], rank)
        if any(each is None or "error" in each for each in expected):
            continue
        wanted = [{"pad_factor": case["expected"].get("pad_factor"), **of_rank} for of_rank in expected]
        if all(keeps_promise(family, *pair) for pair in zip(given, wanted)):
            same += 1
            for rank in range(len(ranks)):
                result = {KEYS[family][1]: expected[rank][KEYS[family][1]]}
                assert difference(result, actual[rank], exact_errors=False) is None, (family, case["name"], rank)
    assert same > 10


def test_all_ranks_have_equally_many_by_default(ranks):
    for family, case in golden_cases(len(ranks)):
        if family == "verl_rearrange_micro_batches" and not case["input"]["same_micro_num_in_dp"]:
            continue
        found = [results["golden"][f"{family}/{case['name']}"][1] for results in ranks]
        counts = {len(result[KEYS[family][1]]) if KEYS[family][1] in result else "error" for result in found}
        assert len(counts) == 1, (family, case["name"], counts)


def test_only_the_ranks_of_the_group_agree(ranks):
    assert [results["agree_in_subgroup"] for results in ranks] == [8, 8, 2, 2][: len(ranks)]


def test_without_a_group_all_ranks_of_the_job_agree_as_in_verl(ranks):
    assert [results["agree_without_group"] for results in ranks] == [[8, 8]] * len(ranks)


def test_an_error_of_one_rank_is_raised_on_all_of_them(ranks):
    expected = ["InputError"] * (len(ranks) - 1) + ["LimitError"]
    assert [results["fail_on_last_rank"] for results in ranks] == expected
    assert [results["pass_wrong_type_on_first_rank"] for results in ranks] == ["InputError"] * len(ranks)


def test_a_cap_that_one_rank_breaks_makes_more_micro_batches_on_all(ranks):
    for results in ranks:
        partitions = results["exceed_cap_on_first_rank"]
        assert len(partitions) == 3
        assert sorted(sample for part in partitions for sample in part) == [0, 1, 2]


def test_packing_among_ranks_needs_a_group(ranks):
    for results in ranks:
        assert "dp_group" in results["pack_without_group"]["error"]


def test_the_parts_of_context_parallel_ranks_are_gathered_again(ranks):
    for results in ranks:
        assert results["context_parallel_round_trip"] == {
            "ring": [True, True], "ulysses": [True, True], "packed": [True]}
