"""Rows move between cuts as the lists specify, and layers of sequences get the rows and states that cross a cut."""

import numpy as np
import pytest

import evenkeel
from evenkeel import CpGroup, PackedLayout, PackedTreeLayout, PrefixTree, packing, routes

CUTS = ("zigzag", "contiguous", "flat")


def layout_of(seed):
    random = np.random.default_rng(seed)
    cp, tp = int(random.integers(1, 9)), int(random.integers(1, 5))
    return PackedLayout(random.integers(0, 90, 7), alignment=2 * cp * tp, cp=CpGroup(cp)), tp


def exchanged(parts, of_members):
    """Returns what each member receives from an all-to-all, placed according to its route."""
    messages = [np.split(part[route.send_rows], np.cumsum(route.send_counts)[:-1]) for part, route in zip(parts, of_members)]
    out = []
    for member, route in enumerate(of_members):
        arrived = [message[member] for message in messages]
        assert [len(part) for part in arrived] == route.receive_counts
        rows = np.zeros(route.num_rows, np.int64)
        rows[route.receive_rows] = np.concatenate(arrived)
        out.append(rows)
    return out


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("seed", range(8))
def test_rows_move_from_zigzag_to_flat_and_back(seed, dtype):
    layout, tp = layout_of(seed)
    members = [(c, t) for c in range(layout.cp.size) for t in range(tp)]
    there = [routes.row_route(layout, "zigzag", "flat", cp_rank=c, tp_rank=t, tp=tp, dtype=dtype) for c, t in members]
    assert all(route.send_rows.dtype == dtype for route in there)
    # Each row is identified by its number in the whole micro-batch.
    zigzag = [packing.partitioned_indices(layout.cu_seqlens_padded, layout.cp, c) for c in range(layout.cp.size)]
    parts = [part for rows in zigzag for part in np.split(rows, tp)]
    flat = exchanged(parts, there)
    assert np.array_equal(np.concatenate(flat), np.arange(layout.num_rows))
    back = exchanged(flat, [route.reversed() for route in there])
    assert all(np.array_equal(a, b) for a, b in zip(back, parts))


def test_runs_identify_the_source_of_states():
    layout = PackedLayout([4, 7, 3], alignment=4, cp=2)
    runs = routes.sequence_runs(layout, "flat", cp_rank=1)
    assert runs.sequence.tolist() == [1, 2] and runs.cu_seqlens.tolist() == [0, 4, 8]
    assert runs.tokens.tolist() == [3, 3] and runs.first.tolist() == [4, 0]
    assert (runs.member_before[0], runs.run_before[0], runs.row_before[0], runs.sequence_before[0]) == (0, 1, 7, 1)
    assert runs.member_before[1] == -1


def test_runs_of_a_tree_are_of_segments():
    tree = PackedTreeLayout(PrefixTree.from_tokens([[1, 2, 3, 4], [1, 2, 3, 5, 6], [1, 2, 7]]), alignment=4, cp=2)
    # The segments have 4 rows each, 20 in all: the third of five is cut in its middle, and its only token is before the cut.
    first, second = (routes.sequence_runs(tree, "flat", cp_rank=r) for r in range(2))
    assert (first.sequence.tolist(), second.sequence.tolist()) == ([0, 1, 2], [2, 3, 4])
    assert (first.sequence_before.tolist(), second.sequence_before.tolist()) == ([-1, 0, 1], [-1, 1, 0])
    assert second.tokens.tolist() == [0, 2, 1] and second.member_before.tolist() == [-1, 0, 0]
    assert routes.halo_route(tree, "flat", 3, cp_rank=1).receive_counts == [4, 0]


@pytest.mark.parametrize("cut", CUTS)
def test_a_halo_has_the_tokens_before_each_run(cut):
    layout = PackedLayout([9, 30, 2], alignment=8, cp=4)
    members = range(4)
    tokens = np.arange(1, layout.num_tokens + 1)
    zigzag = packing.pack_all(layout, tokens)
    moved = exchanged(zigzag, [routes.row_route(layout, "zigzag", cut, cp_rank=r) for r in members])
    halos = exchanged(moved, [routes.halo_route(layout, cut, 4, cp_rank=r) for r in members])
    for r in members:
        runs = routes.sequence_runs(layout, cut, cp_rank=r)
        for i, halo in enumerate(halos[r].reshape(-1, 3)):
            begin = layout.cu_seqlens[runs.sequence[i]]
            here = begin + runs.first[i]
            expected = [int(tokens[at]) if at >= begin and runs.tokens[i] else 0 for at in range(here - 3, here)]
            assert halo.tolist() == expected


def test_layouts_that_cannot_be_cut_are_refused():
    layout = PackedLayout([9], alignment=3, cp=CpGroup(3, "contiguous"))
    for wrong in (
        lambda: routes.row_route(layout, "contiguous", "zigzag", cp_rank=0),
        lambda: routes.row_route(layout, "contiguous", "spiral", cp_rank=0),
        lambda: routes.row_route(layout, "contiguous", "flat", cp_rank=3),
        lambda: routes.row_route(layout, "contiguous", "flat", cp_rank=0, tp=2),
        lambda: routes.row_route(layout, "contiguous", "flat", cp_rank=0, dtype="int16"),
        lambda: routes.sequence_runs(layout, "flat", cp_rank=-1),
        lambda: routes.halo_route(layout, "flat", 0, cp_rank=0),
    ):
        with pytest.raises(evenkeel.InputError):
            wrong()
    with pytest.raises(TypeError, match="layout must be a PackedLayout or a PackedTreeLayout, not"):
        routes.sequence_runs(None, "flat", cp_rank=0)


def test_one_member_moves_rows_without_a_group():
    torch = pytest.importorskip("torch")
    layout = PackedLayout([3, 5])
    route = routes.row_route(layout, "zigzag", "flat", cp_rank=0).to("cpu")
    rows = torch.randn(layout.local_rows, 2, requires_grad=True)
    route.move(rows).sum().backward()
    assert torch.equal(route.move(rows), rows) and torch.equal(rows.grad, torch.ones_like(rows))
    with pytest.raises(evenkeel.InputError):
        route.move(rows[1:])
