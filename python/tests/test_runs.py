"""Runs of equal values: one value for many consecutive tokens."""

import numpy as np
import pytest

import evenkeel
from evenkeel import runs


def test_runs_become_a_row_a_token_and_runs_again():
    first, second, third = runs.expand([[[3, 2], [4, 3]], [(7, 1)], []])
    assert first.tolist() == [3, 3, 4, 4, 4] and first.dtype == np.int32
    assert second.tolist() == [7] and third.tolist() == []
    offsets, values = runs.segments(np.concatenate([first, second]))
    assert offsets.tolist() == [0, 2, 5, 6] and values.tolist() == [3, 4, 7]


def test_a_rollout_that_went_on_under_another_version_has_its_runs_one_after_the_other():
    begun, resumed = [[3, 5]], [[4, 2], [5, 1]]
    (whole,) = runs.expand([begun + resumed])
    assert np.array_equal(whole, np.concatenate(runs.expand([begun, resumed])))


def test_segments_cover_all_rows_and_neighbors_differ():
    random = np.random.default_rng(5)
    for length in range(40):
        rows = random.integers(0, 3, length)
        offsets, values = runs.segments(rows)
        assert np.array_equal(np.repeat(values, np.diff(offsets)), rows)
        assert (values[1:] != values[:-1]).all() and offsets[-1] == length


def test_tensors_are_returned_as_tensors():
    torch = pytest.importorskip("torch")
    _, values = runs.segments(torch.tensor([1, 1, 2]))
    assert torch.equal(values, torch.tensor([1, 2]))


@pytest.mark.parametrize(
    "wrong, error",
    [
        ([[1, 2, 3]], "runs[0]: is not a list of pairs of integers. Write [[value, tokens], ...]"),
        ([[1, 2], [3]], "runs[0]: is not a list of pairs of integers. Write [[value, tokens], ...]"),
        ([[0.5, 2]], "runs[0]: is not a list of pairs of integers. Write [[value, tokens], ...]"),
        ([[1, -2]], "runs[0][0]: has -2 tokens; the length of a run cannot be negative"),
        ([[2**31, 2]], "runs[0]: has the value 2147483648, which int32 cannot hold. Choose another dtype"),
    ],
)
def test_invalid_runs_are_refused(wrong, error):
    with pytest.raises(evenkeel.InputError) as raised:
        runs.expand([wrong])
    assert str(raised.value) == error


def test_runs_are_only_expanded_to_integers():
    with pytest.raises(evenkeel.InputError, match="dtype: is float32; it must be an integer dtype"):
        runs.expand([[[1, 2]]], np.float32)


def test_policy_versions_stay_with_their_tokens_through_packing_cutting_and_merging():
    lengths = [7, 4, 9]
    versions = runs.expand([[[1, 3], [2, 4]], [[5, 4]], [[1, 1], [2, 1], [3, 7]]])
    layout = evenkeel.PackedLayout(lengths, alignment=4, cp=evenkeel.CpGroup(2))
    parts = [evenkeel.pack(layout, versions, cp_rank=rank) for rank in range(2)]
    assert np.array_equal(evenkeel.merge(layout, parts), np.concatenate(versions))
