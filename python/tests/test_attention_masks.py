"""Compares each form of mask that attention kernels accept with the definition of the mask."""

import numpy as np
import pytest

import evenkeel
from evenkeel.packing import PackedLayout
from evenkeel.prefix import PackedTreeLayout, PrefixTree

SAMPLES = [[1, 2, 3, 4], [1, 2, 3, 5, 6], [1, 2, 7]]
LAYOUTS = [
    PackedTreeLayout(PrefixTree.from_tokens(SAMPLES)),
    PackedTreeLayout(PrefixTree.from_tokens(SAMPLES), cp=2),
    PackedTreeLayout.from_sequences(PackedLayout([5, 0, 3, 9], alignment=8, cp=2)),
]


def dense(layout, cp_rank, keys):
    """[queries, keys] bool, by definition."""
    tin_q, _ = layout.ancestor_intervals(cp_rank=cp_rank)
    tin, tout = map(np.concatenate, zip(*(layout.ancestor_intervals(cp_rank=r) for r in range(layout.segments.cp.size))))
    if keys == "packed":
        order = np.argsort(tin)
        tin, tout = tin[order], tout[order]
    return (tin <= tin_q[:, None]) & (tin_q[:, None] < tout)


@pytest.mark.parametrize("keys", ["packed", "gathered"])
@pytest.mark.parametrize("layout, cp_rank", [(layout, r) for layout in LAYOUTS for r in range(layout.segments.cp.size)])
def test_every_form_is_the_mask(layout, cp_rank, keys):
    expected = dense(layout, cp_rank, keys)
    of = {"cp_rank": cp_rank, "keys": keys}

    assert np.array_equal(layout.additive_mask(**of), np.where(expected, 0, -np.inf).astype(np.float32))

    below, above = layout.startend_row_indices(**of).T  # FlashMask: rows from `below` and rows up to `above` are masked
    rows = np.arange(len(expected))[:, None]
    assert np.array_equal((rows >= above) & (rows < below), expected)

    q_ranges, k_ranges, kinds = layout.attention_slices(**of)
    made = np.zeros(expected.shape, int)
    for (q0, q1), (k0, k1), kind in zip(q_ranges, k_ranges, kinds):
        size = (q1 - q0, k1 - k0)
        made[q0:q1, k0:k1] += np.tri(*size, k=size[1] - size[0], dtype=int) if kind == 1 else np.ones(size, int)
    assert np.array_equal(made, expected)

    tiles = layout.block_mask(**of, block_size=(2, 3))
    m, n = -(-expected.shape[0] // 2), -(-expected.shape[1] // 3)
    padded = np.zeros((m * 2, n * 3), bool)
    padded[: expected.shape[0], : expected.shape[1]] = expected
    seen = padded.reshape(m, 2, n, 3).sum(axis=(1, 3))
    for prefix, wanted in (("", (seen > 0) & (seen < 6)), ("full_", seen == 6)):
        for name, matrix in ((f"{prefix}kv", wanted), (f"{prefix}q", wanted.T)):
            counts, indices = tiles[f"{name}_num_blocks"], tiles[f"{name}_indices"]
            assert counts.dtype == indices.dtype == np.int32
            assert counts.shape == (1, 1, len(matrix)) and indices.shape == (1, 1, *matrix.shape)
            for count, listed, row in zip(counts[0, 0], indices[0, 0], matrix):
                assert listed[:count].tolist() == np.flatnonzero(row).tolist()


@pytest.mark.parametrize(
    "call, what",
    [
        (lambda: LAYOUTS[0].block_mask(keys="sorted"), "keys: is 'sorted'; it must be one of packed, gathered"),
        (lambda: LAYOUTS[0].block_mask(block_size=(0, 128)), "is 0 queries by 128 keys"),
        (lambda: LAYOUTS[0].startend_row_indices(cp_rank=1), "is 1; it must be from 0 to 0"),
    ],
)
def test_invalid_arguments_are_refused(call, what):
    with pytest.raises(evenkeel.InputError, match=what):
        call()
