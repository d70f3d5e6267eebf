"""Padding and unpadding are inverse to each other, on whichever side the padding is."""

import numpy as np
import pytest

import evenkeel
from conftest import DTYPES
from evenkeel import padding


def made_up_mask(seed):
    random = np.random.default_rng(seed)
    return random.random((random.integers(1, 6), random.integers(1, 9))) < 0.6


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", range(4))
def test_the_mask_alone_decides_what_is_a_token(kind, seed, dtype):
    mask = made_up_mask(seed)
    padded = kind.make((*mask.shape, *[(), (2,)][seed % 2]), dtype, seed)
    ragged = padding.remove_padding(padded, mask)
    assert np.array_equal(np.asarray(ragged), np.asarray(padded)[mask])
    pad = 0 if dtype == "bool" else 5
    restored = padding.restore_padding(ragged, mask, pad=pad)
    expected = np.array(padded)
    expected[~mask] = pad
    assert kind.equal(restored, kind.make((0,), dtype).new_tensor(expected) if hasattr(restored, "new_tensor") else expected)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64"])
def test_masks_of_any_whole_numbers_mean_the_same(dtype):
    mask = made_up_mask(1)
    assert padding.lengths_of_mask(mask.astype(dtype)).tolist() == mask.sum(axis=1).tolist()


@pytest.mark.parametrize("seed", range(4))
def test_padding_to_the_right_keeps_the_requested_rows(kind, seed):
    random = np.random.default_rng(seed)
    lengths = random.integers(1, 8, size=5)
    prompts = [int(random.integers(0, n + 1)) for n in lengths]
    ragged = kind.make((int(lengths.sum()),), "float32", seed)
    bounds = np.cumsum([0, *lengths])
    whole = np.asarray(padding.pad_right(ragged, lengths, pad=-1))
    kept = padding.response_prediction_rows(lengths, prompts)
    responses = np.asarray(padding.pad_right(ragged, lengths, kept=kept, pad=-1))
    assert whole.shape == (5, lengths.max()) and responses.shape == (5, max(np.array(lengths) - prompts))
    for i, n in enumerate(lengths):
        rows = np.asarray(ragged)[bounds[i] : bounds[i + 1]]
        assert whole[i].tolist() == [*rows, *[-1] * (lengths.max() - n)]
        for j in range(n - prompts[i]):
            t = prompts[i] + j - 1  # row t predicts response token j
            assert responses[i, j] == (rows[t] if t >= 0 else -1)


def test_an_empty_batch_is_padded_to_an_empty_tensor():
    assert padding.pad_right(np.empty(0), []).shape == (0, 0)
    assert padding.remove_padding(np.empty((0, 3)), np.empty((0, 3), bool)).shape == (0,)


@pytest.mark.parametrize(
    "call, what",
    [
        (lambda: padding.lengths_of_mask(np.full((2, 2), 2)), "is neither 0 nor 1"),
        (lambda: padding.lengths_of_mask(np.full((2, 2), 256)), "is neither 0 nor 1"),
        (lambda: padding.lengths_of_mask(np.full((2, 2), -1)), "is neither 0 nor 1"),
        (lambda: padding.lengths_of_mask(np.ones((2, 2))), "dtype float64"),
        (lambda: padding.lengths_of_mask(np.ones(2, bool)), "1 dimension;"),
        (lambda: padding.lengths_of_mask(np.ones((4, 4), bool)[:, ::2]), "not contiguous"),
        (lambda: padding.remove_padding(np.ones((2, 3)), np.ones((3, 2), bool)), r"the mask has \(3, 2\)"),
        (lambda: padding.remove_padding(np.ones((3, 2, 4)).transpose(1, 0, 2), np.ones((2, 3), bool)), "not contiguous"),
        (lambda: padding.restore_padding(np.ones(3), np.ones((2, 2), bool)), "ragged rows"),
        (lambda: padding.pad_right(np.ones(3), [1, 1]), "ragged rows"),
        (lambda: padding.pad_right(np.ones(3), [1, 2], seq=1), "padded length of 1"),
        (lambda: padding.pad_right(np.ones(3), [1, 2], seq=-1), "seq: is -1; it must be at least 0"),
        (lambda: padding.pad_right(np.ones(3), [4, -1]), "sequence"),
        (lambda: padding.pad_right(np.ones(3), [3], kept=([0], [4])), "not within its length"),
        (lambda: padding.pad_right(np.ones(3), [3], kept=([0, 0], [1])), "kept: has 2 range starts and 1 range end for 1 sequence"),
        (lambda: padding.response_prediction_rows([3], [4]), "4"),
        (lambda: padding.response_prediction_rows([3], [1, 1]), "2 entries for 1"),
    ],
)
def test_bad_input_is_an_error_that_names_the_problem(call, what):
    with pytest.raises(evenkeel.InputError, match=what):
        call()
