"""Packing, cutting and merging move every row to its place, for every dtype, cut and kind of array."""

import pickle

import numpy as np
import pytest

import evenkeel
from conftest import DTYPES, made_up_layout, reference_pack, rows_of_rank
from evenkeel import CpGroup, PackedLayout, merge, pack, pack_all, packing, unpack

SEEDS = range(12)


def test_a_layout_is_the_example_of_its_header():
    layout = PackedLayout([2, 4, 6, 1], alignment=4, cp=2)
    assert layout.cu_seqlens.tolist() == [0, 2, 6, 12, 13] and layout.cu_seqlens.dtype == np.int32
    assert layout.cu_seqlens_padded.tolist() == [0, 4, 8, 16, 20]
    assert (layout.max_seqlen, layout.local_rows, layout.num_rows, layout.num_tokens, len(layout)) == (8, 10, 20, 13, 4)
    assert layout.padded_to(24).cu_seqlens_padded.tolist() == [0, 4, 8, 16, 24]
    assert layout.local_range(2) == layout.local_range(-2) == slice(4, 8, 1)


def test_a_layout_is_aligned_as_the_mesh_requires():
    assert PackedLayout([1], cp=2, tp=2).alignment == packing.sequence_alignment(2, 2) == 8
    assert PackedLayout([1], cp=CpGroup(2, "contiguous")).alignment == 2
    assert packing.sequence_alignment(extra=16) == 16
    assert PackedLayout([3, 3], alignment=4, aligned_lengths=[8, 4]).num_rows == 12


def test_a_layout_is_a_value():
    layout = PackedLayout([2, 4], cp=2)
    layout.cu_seqlens[1] = 99
    layout.lengths[0] = 99
    assert layout == PackedLayout(np.array([2, 4], dtype=np.int32), cp=CpGroup(2)) != PackedLayout([2, 4])
    assert layout != "a layout"
    assert pickle.loads(pickle.dumps(layout)) == layout
    assert pickle.loads(pickle.dumps(layout.cp)) == layout.cp and hash(layout.cp) == hash(CpGroup(2))


@pytest.mark.parametrize("seed", SEEDS)
def test_runs_are_the_rows_of_the_cut(seed):
    layout = made_up_layout(seed)
    for cp_rank in range(layout.cp.size):
        rows = rows_of_rank(layout, cp_rank)
        for sequence, begin, end, local in layout.runs(cp_rank):
            assert rows[local : local + end - begin] == [(sequence, t) for t in range(begin, end)]
    sizes = [end - begin for r in range(layout.cp.size) for _, begin, end, _ in layout.runs(r)]
    assert sum(sizes) == layout.num_tokens


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", SEEDS)
def test_packed_rows_are_where_the_definition_puts_them(kind, seed, dtype):
    layout = made_up_layout(seed)
    trailing = [(), (3,), (2, 0), (2, 2)][seed % 4]
    values = kind.make((layout.num_tokens, *trailing), dtype, seed)
    pad = 0 if dtype == "bool" else 7
    parts = [pack(layout, values, cp_rank=r, pad=pad) for r in range(layout.cp.size)]
    for r, part in enumerate(parts):
        assert np.array_equal(np.asarray(part), reference_pack(layout, np.asarray(values), r, pad))
    assert all(kind.equal(*both) for both in zip(parts, pack_all(layout, values, pad=pad, threads=2)))
    apart = packing.split(layout, values)
    assert all(kind.equal(pack(layout, apart, cp_rank=r, pad=pad), part) for r, part in enumerate(parts))
    assert kind.equal(merge(layout, parts), values)
    back = kind.make(tuple(values.shape), dtype, seed + 1)
    for r, part in enumerate(parts):
        assert unpack(layout, part, out=back, cp_rank=r) is back
    assert kind.equal(back, values)


@pytest.mark.parametrize("seed", SEEDS)
def test_derived_fields_follow_from_whole_sequences(kind, seed):
    layout = made_up_layout(seed)
    tokens = kind.make((layout.num_tokens,), "int64", seed)
    prompts = [int(np.random.default_rng(seed).integers(0, n + 1)) for n in layout.lengths]
    sequences = [np.asarray(s) for s in packing.split(layout, tokens)]
    for r in range(layout.cp.size):
        positions = packing.position_ids(layout, cp_rank=r)
        labels = packing.labels(layout, tokens, cp_rank=r, label_pad=-1)
        mask = packing.loss_mask(layout, prompts, cp_rank=r)
        assert labels.dtype == tokens.dtype and len(labels) == layout.local_rows
        weights = packing.loss_weights(layout, np.arange(len(layout)) + 0.5, mask)
        for row, (i, t) in enumerate(rows_of_rank(layout, r)):
            follows = t + 1 < len(sequences[i])
            assert positions[row] == t
            assert labels[row] == (sequences[i][t + 1] if follows else -1)
            assert mask[row] == (1 if follows and prompts[i] <= t + 1 else 0)
            assert weights[row] == (i + 0.5 if mask[row] else 0)


def test_weights_of_filler_are_zero():
    assert packing.loss_weights(PackedLayout([4], alignment=4), [], np.ones(4, np.float32)).tolist() == [0, 0, 0, 0]


def test_filling_padding_leaves_tokens_alone(kind):
    layout = PackedLayout([2, 3], alignment=4)
    local = kind.make((8,), "int32")
    before = np.array(local)
    assert packing.fill_padding(layout, local, pad=-1) is local
    assert np.asarray(local).tolist() == [*before[:2], -1, -1, *before[4:7], -1]


def test_a_pad_row_may_have_one_number_an_element(kind):
    packed = pack(PackedLayout([1], alignment=2), kind.make((1, 3), "float32"), pad=[1, 2, 3])
    assert np.asarray(packed)[1].tolist() == [1, 2, 3]


def test_a_pad_of_floats_is_rounded_and_may_be_no_number(kind):
    layout, values = PackedLayout([1], alignment=2), kind.make((1,), "float32")
    assert np.asarray(pack(layout, values, pad=0.1))[1] == np.float32(0.1)
    assert np.isnan(np.asarray(pack(layout, values, pad=float("nan")))[1])
    assert np.isinf(np.asarray(pack(layout, values, pad=float("inf")))[1])


def test_results_are_written_to_the_callers_array(kind):
    layout = PackedLayout([2, 1], alignment=2)
    values = kind.make((3,), "int64")
    out = kind.make((4,), "int64")
    assert pack(layout, values, out=out) is out and kind.equal(out, pack(layout, values))
    back = kind.make((3,), "int64")
    assert merge(layout, out, out=back) is back and kind.equal(back, values)


def test_sequences_are_views_of_the_ragged_rows(kind):
    layout = PackedLayout([2, 0, 3])
    ragged = kind.make((5,), "int64")
    parts = packing.split(layout, ragged)
    assert [len(part) for part in parts] == [2, 0, 3]
    parts[2][0] = -5
    assert ragged[2] == -5


def test_transformer_engines_lists_are_the_cut():
    layout = PackedLayout([5, 3, 0, 9], cp=2)
    for r in range(2):
        indices = packing.partitioned_indices(layout.cu_seqlens_padded, 2, r)
        firsts = layout.cu_seqlens_padded
        assert indices.tolist() == [firsts[i] + t for i, t in rows_of_rank(layout, r)]
        first, second, both = packing.cu_seqlens_on_cp_rank(layout.cu_seqlens, layout.cu_seqlens_padded, 2, r)
        counts = [sum(end - begin for s, begin, end, _ in layout.runs(r) if s == i) for i in range(4)]
        assert both.tolist() == np.cumsum([0, *counts]).tolist() == (first + second).tolist()
    assert packing.cp_runs(8, 2, 0) == [(0, 2), (6, 8)]


LAYOUT = PackedLayout([2, 1], alignment=4, cp=2)
ROWS = np.arange(3)
LOCAL = np.zeros(4, np.int64)


def read_only():
    array = np.zeros(4, np.int64)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "call, what",
    [
        (lambda: PackedLayout([-1]), "-1"),
        (lambda: PackedLayout([1], alignment=3, cp=2), "3"),
        (lambda: PackedLayout([1], alignment=0), "0"),
        (lambda: PackedLayout([1], cp=0), None),
        (lambda: PackedLayout([1], tp=0), "tensor-parallel size"),
        (lambda: PackedLayout([5], alignment=4, aligned_lengths=[4]), "5"),
        (lambda: PackedLayout([5], aligned_lengths=[4, 4]), "aligned"),
        (lambda: CpGroup(0), "is 0; it must be at least 1"),
        (lambda: CpGroup(2, "spiral"), "zigzag, contiguous"),
        (lambda: pack(LAYOUT, ROWS[:2]), "values: has 2 rows; it must have 3"),
        (lambda: pack(LAYOUT, ROWS, cp_rank=2), "context-parallel rank: is 2; it must be from 0 to 1"),
        (lambda: pack(LAYOUT, ROWS, cp_rank=-1), "is -1; it must be from 0 to 1"),
        (lambda: pack(LAYOUT, ROWS, threads=0), "threads: is 0; it must be at least 1"),
        (lambda: pack(LAYOUT, np.arange(6)[::2]), "values: is not contiguous.*ascontiguousarray"),
        (lambda: pack(LAYOUT, np.zeros((3, 2), order="F")), "not contiguous"),
        (lambda: pack(LAYOUT, np.array([None] * 3)), "Python objects cannot be moved"),
        (lambda: pack(LAYOUT, np.array(3)), "is a single number"),
        (lambda: pack(LAYOUT, ROWS, out=np.zeros(5, np.int64)), r"out: has the shape \(5,\); it must be \(4,\)"),
        (lambda: pack(LAYOUT, ROWS, out=np.zeros(4, np.int32)), "out: has the dtype int32; it must be int64"),
        (lambda: pack(LAYOUT, ROWS, out=np.zeros(8, np.int64)[::2]), "out: is not contiguous"),
        (lambda: pack(LAYOUT, ROWS, out=read_only()), "out: is read-only"),
        (lambda: pack(LAYOUT, ROWS.astype(np.uint8), pad=-100), "-100 does not fit into the dtype uint8"),
        (lambda: pack(LAYOUT, ROWS.astype(np.float16), pad=1e10), "does not fit into the dtype float16"),
        (lambda: pack(LAYOUT, ROWS, pad=1.5), "1.5 does not fit into the dtype int64"),
        (lambda: pack(LAYOUT, ROWS, pad=[1, 2]), r"pad: \[1, 2\] cannot fill a row of shape \(\) and dtype int64"),
        (lambda: pack(LAYOUT, ROWS.astype("M8[s]"), pad="soon"), r"pad: 'soon' cannot fill a row of shape \(\)"),
        (lambda: pack(LAYOUT, np.ma.masked_array(ROWS)), "values: is a masked array"),
        (lambda: pack(LAYOUT, [ROWS[:2]]), "values: there is 1 sequence, but the layout has 2"),
        (lambda: pack(LAYOUT, [ROWS[:1], ROWS[:2]]), r"values\[0\]: has 1 row; sequence 0 of the layout has 2 tokens"),
        (lambda: pack(LAYOUT, [ROWS[:2], ROWS[:1].astype(float)]), r"values\[1\]: has rows of shape \(\) and type float64"),
        (lambda: pack(LAYOUT, [ROWS[::2], ROWS[:1]]), r"values\[0\]: is not contiguous"),
        (lambda: pack(PackedLayout([]), []), "values: is an empty list"),
        (lambda: merge(LAYOUT, [LOCAL]), "has 1 tensor for 2 context-parallel ranks"),
        (lambda: merge(LAYOUT, [LOCAL, LOCAL[:2]]), r"locals\[1\]: has 2 rows"),
        (lambda: merge(LAYOUT, [LOCAL, LOCAL.astype(float)]), r"locals\[1\]: has rows of shape \(\) and type float64"),
        (lambda: unpack(LAYOUT, LOCAL, out=np.zeros(2, np.int64)), r"out: has the shape \(2,\)"),
        (lambda: packing.fill_padding(LAYOUT, read_only()), "local: is read-only"),
        (lambda: packing.position_ids(LAYOUT, cp_rank=2), "is 2; it must be from 0 to 1"),
        (lambda: packing.labels(LAYOUT, ROWS.astype(np.int32)), "tokens: has the dtype 'int32'; it must be int64. Convert it: x.astype.'int64'"),
        (lambda: packing.labels(LAYOUT, ROWS[:2]), "tokens: has 2 rows"),
        (lambda: packing.loss_mask(LAYOUT, [1]), "prompt"),
        (lambda: packing.loss_mask(LAYOUT, [1, 2]), "2"),
        (lambda: packing.loss_weights(LAYOUT, [1, 1, 1], LOCAL), "there are 3 token weights for 2"),
        (lambda: packing.loss_weights(LAYOUT, [1, 1], LOCAL[:2]), "mask: has 2 rows"),
        (lambda: packing.loss_weights(LAYOUT, [1, 1], LOCAL.reshape(4, 1)), "one value per row"),
        (lambda: packing.split(LAYOUT, LOCAL), "ragged: has 4 rows"),
        (lambda: LAYOUT.runs(2), "is 2; it must be from 0 to 1"),
        (lambda: LAYOUT.padded_to(9), "9"),
        (lambda: packing.partitioned_indices([0, 4, 2], 1, 0), "decrease"),
        (lambda: packing.partitioned_indices([0, 2**40], 1, 0), "does not fit into int32"),
        (lambda: packing.cu_seqlens_on_cp_rank([0, 2], [0, 4, 8], 2, 0), None),
        (lambda: packing.cp_runs(7, 2, 0), "7 rows"),
    ],
)
def test_bad_input_is_an_error_that_names_the_problem(call, what):
    with pytest.raises(evenkeel.InputError, match=what):
        call()


def test_too_many_rows_are_above_a_limit():
    with pytest.raises(evenkeel.LimitError, match="2147483647"):
        PackedLayout([2**30, 2**30])
    with pytest.raises(IndexError, match="sequence 2 does not exist"):
        LAYOUT.local_range(2)


@pytest.mark.parametrize("values", [None, 3, "abc", {"a": 1}, object()])
def test_values_must_be_arrays(values):
    with pytest.raises((TypeError, evenkeel.InputError)):
        pack(LAYOUT, values)
