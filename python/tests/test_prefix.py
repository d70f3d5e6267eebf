"""Shared prefixes: layouts store every shared token once, and results are converted back to samples."""

import pickle

import numpy as np
import pytest

import evenkeel
from evenkeel import PackedTreeLayout, PrefixGroups, PrefixLayout, PrefixTree, TokenPlaces, merge, pack_all, prefix

SAMPLES = [[1, 2, 3, 4], [1, 2, 3, 5, 6], [1, 2, 7]]
GROUPS = [[3, 2, 1], [2, 4]]


def made_up_samples(seed):
    """Returns samples with few distinct tokens, so they share long prefixes."""
    random = np.random.default_rng(seed)
    return [random.integers(0, 2, size=random.integers(0, 8)) for _ in range(random.integers(1, 9))]


def test_a_tree_is_the_example_of_its_header():
    tree = PrefixTree.from_tokens(SAMPLES)
    assert tree.lengths.tolist() == [2, 1, 1, 2, 1]
    assert tree.parents.tolist() == [-1, 0, 1, 1, 0]
    assert tree.depths.tolist() == [0, 2, 3, 3, 2]
    tin, tout = tree.ancestor_intervals()
    assert tin.tolist() == list(range(7)) and tout.tolist() == [7, 7, 6, 4, 6, 6, 7]
    assert tree.savings() == {"tokens": 7, "repeated_tokens": 12, "score_entries": 22, "repeated_score_entries": 31}
    states = tree.branch_states()
    assert states["from"].tolist() == [-1, 0, 1, 1, 0] and states["uses"].tolist() == [2, 2, 0, 0, 0]
    assert states["last_use"].tolist() == [4, 3, -1, -1, -1] and states["peak_kept"] == 2
    schedule = PackedTreeLayout(tree).depth_first(max_kept=2)
    assert schedule["rows"].tolist() == [[0, 2], [2, 3], [3, 4], [4, 6], [6, 7]]
    assert schedule["parents"].tolist() == [-1, 0, 1, 1, 0] and schedule["keys_before"].tolist() == [0, 2, 3, 3, 2]
    assert schedule["steps"][:4] == [("push", 0), ("push", 1), ("visit", 2), ("pop", 2)]
    assert [schedule[name] for name in ("peak_keys", "peak_kept", "recomputed")] == [5, 2, 3]
    assert tree.path_to(3) == [0, 1, 3] and tree.sample_ends.tolist() == [2, 3, 4]
    assert tree.samples_through.tolist() == [3, 2, 1, 1, 1] and tree.first_samples.tolist() == [0, 0, 0, 1, 2]


@pytest.mark.parametrize("seed", range(10))
def test_every_token_exists_and_attends_to_all_tokens_before_it(seed):
    samples = made_up_samples(seed)
    tree = PrefixTree.from_tokens(samples)
    rows = prefix.tree_rows(tree, samples)
    tin, tout = tree.ancestor_intervals()
    positions = tree.position_ids()
    assert len(rows) == tree.num_rows <= sum(map(len, samples))
    for i, sample in enumerate(samples):
        mine = tree.rows_of(i)
        assert tree.sample_length(i) == len(sample) and rows[mine].tolist() == sample.tolist()
        assert positions[mine].tolist() == list(range(len(sample)))
        assert tree.prediction_rows(i).tolist() == [-1, *mine[:-1]][: len(sample)]
        for t, row in enumerate(mine):
            seen = np.flatnonzero((tin <= tin[row]) & (tin[row] < tout))
            assert sorted(seen) == sorted(mine[: t + 1])


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("cp", [1, 2, 4])
def test_a_packed_tree_is_packed_merged_and_predicts(seed, cp):
    samples = made_up_samples(seed)
    layout = PackedTreeLayout(PrefixTree.from_tokens(samples), cp=cp)
    rows = prefix.tree_rows(layout.tree, samples)
    assert np.array_equal(merge(layout.segments, pack_all(layout.segments, rows)), rows)
    prompts = [len(sample) // 2 for sample in samples]
    predictions = layout.predictions(prompts)
    assert len(predictions) == predictions.offsets[-1] == sum(len(s) - p for s, p in zip(samples, prompts))
    local_rows = pack_all(layout.segments, np.arange(layout.tree.num_rows), pad=-1)
    found = np.full(len(predictions), -1)
    for r in range(cp):
        mine, entries = predictions.on(r)
        found[entries] = local_rows[r][mine]
    expected = [row for i, p in enumerate(prompts) for row in layout.tree.prediction_rows(i)[p:]]
    assert found.tolist() == expected


def test_a_tree_is_specified_by_its_structure():
    tree = PrefixTree.from_tokens(SAMPLES)
    assert PrefixTree(tree.parents, tree.lengths, tree.sample_ends) == tree
    assert pickle.loads(pickle.dumps(tree)) == tree
    assert tree.subtree([0, 2]).lengths.tolist() == [2, 2, 1]
    assert tree != PrefixTree.from_groups(PrefixGroups(GROUPS)) and tree != 3


def test_a_tree_shares_tokens_that_are_followed_by_the_same_ones():
    tree = PrefixTree.from_tokens(SAMPLES, ahead=1)
    assert tree.lengths.tolist() == [1, 1, 2, 3, 2] and tree.parents.tolist() == [-1, 0, 1, 1, 0]


def test_groups_are_a_tree_of_one_level():
    tree = PrefixTree.from_groups(PrefixGroups(GROUPS))
    assert tree.lengths.tolist() == [3, 2, 1, 2, 4] and tree.parents.tolist() == [-1, 0, 0, -1, 3]
    layout = PackedTreeLayout(tree, alignment=4, cp=2)
    assert layout.segments.aligned_lengths.tolist() == [4] * 5
    arguments = layout.attention(cp_rank=0)
    assert arguments["cu_seqlens_q"][-1] <= layout.segments.local_rows == arguments["cu_seqlens_q_padded"][-1]
    assert len(arguments["key_rows"]) == arguments["cu_seqlens_k_padded"][-1]


def test_rows_of_a_tree_are_of_the_samples_kind():
    torch = pytest.importorskip("torch")
    samples = [torch.tensor(s) for s in SAMPLES]
    rows = prefix.tree_rows(PrefixTree.from_tokens(samples), samples)
    assert torch.equal(rows, torch.tensor([1, 2, 3, 4, 5, 6, 7]))


def test_a_layout_of_groups_is_the_example_of_its_header():
    layout = PrefixLayout(PrefixGroups(GROUPS))
    assert layout.grouped.shape == (2, 6)
    assert layout.position_ids().tolist() == [[0, 1, 2, 3, 4, 3], [0, 1, 2, 3, 4, 5]]
    assert layout.prefix[1].shape == (2, 3) and layout.suffix[1].shape == (3, 4)
    assert layout.prefix[1].mask().tolist() == [[True] * 3, [False, True, True]]
    assert layout.suffix_keys()[1].shape == (3, 7)
    left = PrefixLayout(PrefixGroups(GROUPS), padding="left")
    assert left == PrefixLayout(PrefixGroups(GROUPS), mask=left.grouped.mask()) and left.groups == layout.groups


@pytest.mark.parametrize("heads_first", [False, True])
@pytest.mark.parametrize("padding", ["left", "right"])
@pytest.mark.parametrize("seed", range(4))
def test_grouping_is_undone_by_ungrouping(kind, seed, padding, heads_first):
    random = np.random.default_rng(seed)
    groups = [random.integers(0, 6, size=random.integers(2, 5)) for _ in range(3)]
    layout = PrefixLayout(PrefixGroups(groups), padding=padding)
    batch, width = layout.grouped.shape
    shape = (batch, 2, width, 3) if heads_first else (batch, width, 3)
    grouped = kind.make(shape, "float32", seed)
    parts = prefix.ungroup(layout, grouped, pad=-1, heads_first=heads_first)
    for part, places in zip(parts, (layout.prefix, layout.suffix)):
        # Computes the expected result from index lists, without runs of tokens.
        of = np.moveaxis(np.asarray(grouped), 1, 2) if heads_first else np.asarray(grouped)
        expected = np.full((*places[1].shape, *of.shape[2:]), -1, np.float32)
        expected.reshape(-1, *of.shape[2:])[places[1].indices()] = of.reshape(-1, *of.shape[2:])[places[0].indices()]
        got = np.moveaxis(np.asarray(part), 1, 2) if heads_first else np.asarray(part)
        assert np.array_equal(got, expected)
    back = prefix.group(layout, *parts, heads_first=heads_first)
    mask = layout.grouped.mask()
    mask = mask[:, None, :, None] if heads_first else mask[..., None]
    assert np.array_equal(np.asarray(back), np.where(mask, np.asarray(grouped), 0))
    assert type(back) is type(grouped)


def test_prompts_and_responses_become_groups(kind):
    prompts, responses = kind.make((2, 4), "int64", 1), kind.make((3, 5), "int64", 2)
    prompt_mask = np.array([[0, 1, 1, 1], [0, 0, 1, 1]])
    response_mask = np.array([[1, 1, 0, 0, 0], [1, 0, 0, 0, 0], [1, 1, 1, 1, 0]])
    groups = prefix.groups_from_masks(prompt_mask, response_mask, [2, 1])
    assert groups == PrefixGroups(GROUPS) and groups.to_lists() == GROUPS and pickle.loads(pickle.dumps(groups)) == groups
    layout = PrefixLayout(groups)
    grouped = prefix.concat_input(layout, prompts, prompt_mask, responses, response_mask, pad=-1)
    p, r = np.asarray(prompts), np.asarray(responses)
    assert np.asarray(grouped).tolist() == [[*p[0, 1:], *r[0, :2], *r[1, :1]], [*p[1, 2:], *r[2, :4]]]


def test_outputs_are_split_with_the_row_that_predicts_each_token(kind):
    layout = PrefixLayout(PrefixGroups(GROUPS))
    output = kind.make((2, 6), "float32")
    of_prefix, prefix_mask, of_suffix, suffix_mask = prefix.split_output(layout, output, include_prefix_last=1)
    x = np.asarray(output)
    assert np.asarray(of_suffix)[0, :3].tolist() == [x[0, 2], x[0, 3], x[0, 4]]
    assert np.asarray(of_suffix)[1, :2].tolist() == [x[0, 2], x[0, 5]]
    assert np.asarray(suffix_mask).sum(axis=1).tolist() == [3, 2, 5]
    assert np.asarray(prefix_mask).sum(axis=1).tolist() == [2, 1]
    assert type(of_prefix) is type(prefix_mask) is type(output)


def test_padding_changes_sides(kind):
    right, left = (TokenPlaces.from_lengths([1, 3], side=side) for side in ("right", "left"))
    values = kind.make((2, 3), "int32")
    moved = np.asarray(prefix.convert_padding(right, left, values, pad=-1))
    assert moved.tolist() == [[-1, -1, np.asarray(values)[0, 0]], np.asarray(values)[1].tolist()]
    assert prefix.places_of_mask(left.mask()) == left and len(left) == 4


TREE = PrefixTree.from_tokens(SAMPLES)
LAYOUT = PrefixLayout(PrefixGroups(GROUPS))
MASK = np.ones((2, 3), bool)


@pytest.mark.parametrize(
    "call, what",
    [
        (lambda: PrefixTree([1], [2], [0]), "parent"),
        (lambda: PrefixTree([-1], [2, 3], [0]), "tokens: has 2 entries for 1 segment"),
        (lambda: PrefixTree([-1], [2], [1]), "1"),
        (lambda: PrefixTree([-1], [-2], [0]), "-2"),
        (lambda: PrefixTree.from_tokens([[1.5]]), r"samples\[0\]\[0\]"),
        (lambda: PrefixTree.from_tokens(SAMPLES, ahead=-1), "ahead: is -1; it must be at least 0"),
        (lambda: TREE.subtree([3]), "3"),
        (lambda: prefix.tree_rows(TREE, SAMPLES[:1]), "there is 1 sample, but the tree has 3"),
        (lambda: prefix.tree_rows(TREE, [np.zeros(4)] * 3), r"samples\[1\]: has 4 rows, but sample 1 of the tree has 5 tokens"),
        (lambda: PackedTreeLayout(TREE, alignment=3, cp=2), "3"),
        (lambda: PackedTreeLayout(TREE, cp=2).position_ids(cp_rank=2), "is 2; it must be from 0 to 1"),
        (lambda: PackedTreeLayout(TREE).ancestor_intervals(cp_rank=-1), "is -1; it must be from 0 to 0"),
        (lambda: PackedTreeLayout(TREE).attention(cp_rank=1), "is 1; it must be from 0 to 0"),
        (lambda: PackedTreeLayout(TREE).predictions([1]), "1"),
        (lambda: PackedTreeLayout(TREE).predictions([1, 1, 4]), "4"),
        (lambda: PackedTreeLayout(TREE).predictions([1, 1, 1]).on(-1), "is -1; it must be at least 0"),
        (lambda: PrefixGroups([]), None),
        (lambda: PrefixGroups([[3]]), "suffix"),
        (lambda: PrefixGroups([[3, -1]]), "-1"),
        (lambda: prefix.groups_from_masks(MASK, MASK, [2, 1]), None),
        (lambda: prefix.groups_from_masks(MASK, MASK, [-1] * len(MASK)), "group sizes: contain -1; a size cannot be negative"),
        (lambda: PrefixLayout(PrefixGroups(GROUPS), padding="middle"), "right, left"),
        (lambda: PrefixLayout(PrefixGroups(GROUPS), mask=MASK), None),
        (lambda: LAYOUT.split(-1), "-1"),
        (lambda: LAYOUT.split(3), None),
        (lambda: LAYOUT.split(1, short_prefix="x"), "error, pad"),
        (lambda: TokenPlaces.from_lengths([3], width=2), "3"),
        (lambda: prefix.group(LAYOUT, np.zeros((2, 3)), np.zeros((3, 5))), r"suffix: batch size and width are \[3, 5\]; they must be \[3, 4\]"),
        (lambda: prefix.group(LAYOUT, np.zeros((2, 3)), np.zeros((3, 4), int)), "suffix: has the dtype int64"),
        (lambda: prefix.group(LAYOUT, np.zeros((2, 3, 2)), np.zeros((3, 4))), r"suffix: has rows of shape \(\)"),
        (lambda: prefix.group(LAYOUT, np.zeros((2, 1, 3)), np.zeros((3, 2, 4)), heads_first=True), "2 heads"),
        (lambda: prefix.ungroup(LAYOUT, np.zeros((2, 5))), r"values: batch size and width are"),
        (lambda: prefix.ungroup(LAYOUT, np.zeros(6)), "they must have at least 2"),
        (lambda: prefix.ungroup(LAYOUT, np.zeros((2, 6), order="F")), "not contiguous"),
        (lambda: prefix.concat_input(LAYOUT, np.zeros((2, 3)), MASK, np.zeros((3, 4)), np.ones((3, 4), bool)), "mask"),
        (lambda: prefix.convert_padding(TokenPlaces.from_lengths([1, 2]), TokenPlaces.from_lengths([2, 1]), np.zeros((2, 2))),
         None),
    ],
)
def test_bad_input_is_an_error_that_names_the_problem(call, what):
    with pytest.raises(evenkeel.InputError, match=what):
        call()


def test_places_that_are_not_there_are_index_errors():
    for call in (TREE.rows_of, TREE.prediction_rows, TREE.sample_length):
        with pytest.raises(IndexError, match="sample 3 does not exist"):
            call(3)
    with pytest.raises(IndexError, match="segment 5 does not exist"):
        TREE.path_to(5)
