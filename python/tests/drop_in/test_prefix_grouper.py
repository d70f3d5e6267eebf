"""Properties of PrefixGrouper that the vectors do not cover: gradients, dtypes, errors."""

import pytest
import torch

import evenkeel
from evenkeel.drop_in import verl
from evenkeel.drop_in.prefix_grouper import PrefixGrouper, PrefixGrouperForPackedSequence
from golden_families import plain_attention

GROUPS = [[3, 2, 1], [2, 4]]


def grouper(mode="right", **options):
    return PrefixGrouper(GROUPS, padding_mode=mode, **options)


@pytest.mark.parametrize("mode", ["right", "left", torch.tensor([[1, 0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 1, 1]])])
def test_attention_over_groups_is_attention_of_each_sequence_alone(mode):
    torch.manual_seed(0)
    own = grouper(mode)
    width = own.padding_mask.shape[1]
    q = torch.randn(2, 4, width, 8, dtype=torch.double, requires_grad=True)
    k, v = (torch.randn(2, 2, width, 8, dtype=torch.double, requires_grad=True) for _ in range(2))
    out = own.forward(plain_attention, q, k, v, 0.3, causal=True)
    weights = torch.randn_like(out) * own.padding_mask[:, :, None, None]
    (out * weights).sum().backward()
    found = [x.grad.clone() for x in (q, k, v)]
    assert not out[~own.padding_mask].any()

    for x in (q, k, v):
        x.grad = None
    total = torch.zeros((), dtype=torch.double)
    for g, (prefix, *suffixes) in enumerate(GROUPS):
        places = own.padding_mask[g].nonzero()[:, 0]
        begin = prefix
        for s, suffix in enumerate(suffixes):
            chosen = torch.cat([places[:prefix], places[begin : begin + suffix]])
            begin += suffix
            rows = [x[g : g + 1, :, chosen] for x in (q, k, v)]
            alone = plain_attention(*rows, torch.ones(1, len(chosen), dtype=torch.bool), 0.3, True)[0]
            first = 0 if s == 0 else prefix  # the rows of the prefix count only once
            assert torch.allclose(out[g, chosen], alone)
            total = total + (alone[first:] * weights[g, chosen[first:]]).sum()
    total.backward()
    assert all(torch.allclose(one, other.grad) for one, other in zip(found, (q, k, v)))


def test_each_move_is_differentiable():
    own = grouper()
    x = torch.randn(2, 2, 6, 3, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: own.ungroup(x, x, x)[::3], (x,))
    prefix = torch.randn(2, 3, 2, dtype=torch.double, requires_grad=True)
    suffix = torch.randn(3, 4, 2, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(own.group, (prefix, suffix))
    output = torch.randn(2, 6, 2, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: own.split_output(x, 1)[::2], (output,))
    masks = torch.tensor([[0, 0, 1, 1, 1], [0, 0, 0, 1, 1]]), torch.tensor([[1, 1, 0, 0], [1, 0, 0, 0], [1, 1, 1, 1]])
    embedded = torch.randn(2, 5, 2, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(lambda p, s: own.concat_input(p, masks[0], s, masks[1]), (embedded, suffix))
    assert torch.autograd.gradcheck(lambda p: PrefixGrouper.convert_padding(p, masks[0], "right"), (embedded,))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.long, torch.bool])
def test_values_of_any_dtype_keep_it(dtype):
    output = (torch.arange(24).reshape(2, 6, 2) % 2 == 0).to(dtype)
    assert all(part.dtype == dtype for part in grouper().split_output(output)[::2])
    assert grouper().group(torch.ones(2, 3, 1, dtype=dtype), torch.ones(3, 4, 1, dtype=dtype)).dtype == dtype


def test_outputs_may_have_no_trailing_or_many_dimensions():
    own = grouper()
    for trailing in ((), (5,), (2, 3)):
        whole = torch.randn(2, 6, *trailing)
        prefix, prefix_mask, suffix, suffix_mask = own.split_output(whole)
        assert prefix.shape == (2, 3, *trailing) and suffix.shape == (3, 4, *trailing)
        assert torch.equal(own.group(prefix, suffix), whole)
        assert prefix_mask.dtype == suffix_mask.dtype == torch.bool


def test_a_step_of_grpo_gives_the_losses_of_separate_sequences():
    """Groups ids, runs a model without attention, and gives each response token the logits of the preceding row."""
    torch.manual_seed(1)
    prompts = torch.tensor([[0, 5, 6, 7], [0, 0, 8, 9]])
    responses = torch.tensor([[1, 2, 0, 0], [3, 0, 0, 0], [4, 5, 6, 7]])
    mask = (responses != 0).long()
    own = PrefixGrouper.from_ungrouped_masks(prompts != 0, mask, [2, 1])
    assert [list(info) for info in own.group_info] == GROUPS
    ids = own.concat_input(prompts, prompts != 0, responses, mask)
    model = torch.nn.Embedding(10, 10)
    _, _, logits, logits_mask = own.split_output(model(ids), include_prefix_last=1)
    assert logits.shape == (3, 5, 10) and logits_mask[:, 1:].long().equal(mask)
    log_probs = logits[:, :-1].log_softmax(-1).gather(-1, responses[..., None])[..., 0]
    previous = torch.tensor([[7, 1, 0, 0], [7, 0, 0, 0], [9, 4, 5, 6]])
    expected = model(previous).log_softmax(-1).gather(-1, responses[..., None])[..., 0]
    assert torch.allclose(log_probs * mask, expected * mask)


def test_groups_are_specified_as_in_the_project():
    own = grouper()
    assert len(own.group_info) == own.group_info.batch_size == 2
    first = own.group_info[0]
    assert (first.prefix_len, first.suffix_lens, first.num_suffixes, first.total_len) == (3, [2, 1], 2, 6)
    assert first[0] == 3 and list(first) == [3, 2, 1] and first[1:] == [2, 1]
    indices, shapes = own.get_ungroup_args("cpu")
    assert [len(index) for index in indices] == [5, 7, 5, 7] and [tuple(s) for s in shapes] == [(2, 3), (3, 4)]
    both = own.batch_repeat_cat(torch.arange(2)[:, None], torch.arange(3)[:, None], cat_dim=1)
    assert both.tolist() == [[0, 0], [0, 1], [1, 2]]
    later = PrefixGrouper()
    later.init(GROUPS, padding_mode="left")
    assert torch.equal(later.padding_mask, grouper("left").padding_mask)


def test_position_ids_follow_the_padding_unless_strict():
    own = PrefixGrouper([[1, 1], [1, 2]], padding_mode="left")
    assert verl.build_position_ids_for_prefix_grouper(own).tolist() == [[0, 0, 1], [0, 1, 2]]
    assert verl.build_position_ids_for_prefix_grouper(own, strict_reference=True).tolist() == [[0, 1, 0], [0, 1, 2]]
    assert own.position_ids(7).tolist() == [[7, 0, 1], [0, 1, 2]]


def test_a_prefix_that_is_too_short_is_refused_unless_strict():
    output = torch.arange(6.0).reshape(2, 3, 1)
    with pytest.raises(evenkeel.InputError):
        PrefixGrouper([[1, 1], [2, 1]]).split_output(output, 2)
    strict = PrefixGrouper([[1, 1], [2, 1]], strict_reference=True)
    assert strict.split_output(output, 2)[3].tolist() == [[False, True, True], [True, True, True]]
    assert strict.split_output(output, 9)[3].shape == (2, 3)


@pytest.mark.parametrize("group_info, mode", [
    ([], "right"), ([[3]], "right"), ([[]], "right"), ([[3, -1]], "right"), ([[3, 1.5]], "right"), ([["a", 1]], "right"),
    (GROUPS, "middle"), (GROUPS, torch.ones(2, 7)), (GROUPS, torch.ones(3, 6)), (GROUPS, torch.ones(12)), (GROUPS, None),
])
def test_groups_and_padding_that_make_no_sense_are_refused(group_info, mode):
    with pytest.raises(evenkeel.InputError):
        PrefixGrouper(group_info, padding_mode=mode)


def test_tensors_of_other_shapes_are_refused():
    own, x = grouper(), torch.zeros(2, 4, 6, 8)
    calls = [
        lambda: own.ungroup(x, x, x[:, :, :5]), lambda: own.ungroup(x[0], x, x),
        lambda: own.forward(plain_attention, x, x[:1], x, 1.0, True),
        lambda: own.group(torch.zeros(2, 3, 4, 8), torch.zeros(3, 5, 4, 8)),
        lambda: own.split_output(torch.zeros(2, 5, 1)), lambda: own.split_output(torch.zeros(2, 6, 1), -1),
        lambda: own.concat_input(torch.ones(2, 3), torch.ones(2, 3), torch.ones(3, 4), torch.ones(3, 4)),
        lambda: own.concat_input(torch.ones(2, 3), torch.ones(2, 4), torch.ones(3, 4), torch.ones(3, 4)),
        lambda: PrefixGrouper.convert_padding(torch.ones(2, 3), torch.ones(2, 4)),
        lambda: PrefixGrouper.convert_padding(torch.ones(2, 3), torch.ones(2, 3), torch.tensor([[1, 1], [1, 1]])),
        lambda: PrefixGrouper.convert_padding(torch.ones(2, 3), torch.ones(2, 3), "middle"),
        lambda: PrefixGrouper.from_ungrouped_masks(torch.ones(2, 3), torch.ones(3, 3), 2),
        lambda: PrefixGrouper.from_ungrouped_masks(torch.ones(2, 3), torch.ones(3, 3), [1, 1]),
        lambda: PrefixGrouper.from_ungrouped_masks(torch.ones(6), torch.ones(3, 3), [1, 1]),
    ]
    for call in calls:
        with pytest.raises(evenkeel.InputError):
            call()


def test_building_from_a_micro_batch_requires_equal_counts():
    batch = {"prompts": torch.ones(2, 3, dtype=torch.long), "responses": torch.ones(2, 2, dtype=torch.long),
             "response_mask": torch.ones(2, 2, dtype=torch.long), "uid": ["a"]}
    with pytest.raises(evenkeel.InputError):
        verl.build_pg_from_micro_batch(batch, 0)


def test_building_accepts_the_inputs_of_engines():
    """Tests nested tensors of lists of tokens, uids wrapped by tensordict, and a pad token other than 0."""
    class NonTensorData:
        data = ["a", "a", "b"]

    def nested(*rows):
        return torch.nested.nested_tensor([torch.tensor(row) for row in rows])

    batch = {"prompts": torch.tensor([[9, 3, 4], [9, 3, 4], [1, 2, 3]]), "responses": nested([5, 6], [7], [8]),
             "response_mask": nested([1, 1], [1], [1]), "uid": NonTensorData()}
    own, ids, mask, _, responses, response_mask = verl.build_pg_from_micro_batch(batch, 9)
    assert [list(info) for info in own.group_info] == [[2, 2, 1], [3, 1]]
    assert ids[mask].tolist() == [3, 4, 5, 6, 7, 1, 2, 3, 8]
    assert responses.tolist() == [[5, 6], [7, 9], [8, 9]] and response_mask.tolist() == [[1, 1], [1, 0], [1, 0]]


PACKED_MASKS = [None, torch.tensor([1, 1, 0, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 0])]  # 12 tokens


@pytest.mark.parametrize("mask", PACKED_MASKS)
def test_a_packed_grouper_moves_the_tokens_of_the_padded_one(mask):
    padded, packed = grouper(), PrefixGrouperForPackedSequence(GROUPS, padding_mode=mask)
    places = torch.arange(12) if mask is None else mask.nonzero()[:, 0]
    q = torch.randn(2, 6, 4, 8, dtype=torch.double)
    rows = torch.full((packed.x_shape[0], 4, 8), 7.0, dtype=torch.double)  # padding contains 7
    rows[places] = q[padded.padding_mask]
    for x, y in zip(packed.ungroup(rows, rows, rows), padded.ungroup(*[q.transpose(1, 2)] * 3)):
        assert torch.equal(x, y.transpose(1, 2))
    for k in (0, 1):
        for x, y in zip(packed.split_output(rows, k), padded.split_output(q, k)):
            assert torch.equal(x, y)
    assert torch.equal(packed.position_ids(-1)[places], padded.position_ids()[padded.padding_mask])
    assert (packed.position_ids(-1) == -1).sum() == len(rows) - 12
    for one in ("prefix", "suffix"):
        chosen = getattr(packed, f"grouped_{one}_mask")[places]
        assert torch.equal(chosen, getattr(padded, f"grouped_{one}_mask")[padded.padding_mask])
    parts = padded.split_output(q)
    whole = packed.concat_input(parts[0], parts[1], parts[2], parts[3])
    rows[packed.padding_mask.logical_not()] = 0
    assert torch.equal(whole, rows)


@pytest.mark.parametrize("mask", PACKED_MASKS)
def test_attention_over_a_packed_grouper_is_that_over_the_padded_one(mask):
    padded, packed = grouper(), PrefixGrouperForPackedSequence(GROUPS, padding_mode=mask)
    places = torch.arange(12) if mask is None else mask.nonzero()[:, 0]
    q = torch.randn(2, 6, 4, 8, dtype=torch.double)
    rows = torch.zeros(packed.x_shape[0], 4, 8, dtype=torch.double)
    rows[places] = q[padded.padding_mask]
    rows.requires_grad_()
    expected = padded.forward(plain_attention, *[q.transpose(1, 2)] * 3, 0.3, causal=True)[padded.padding_mask]
    out = packed.forward(plain_attention, rows, rows, rows, 0.3, causal=True)
    assert out.shape == rows.shape and torch.allclose(out[places], expected)
    out.sum().backward()
    assert rows.grad[places].abs().sum() > 0

    # The same with attention of variable lengths.
    queries, keys, values = packed.prepare_packed_qkv(rows, rows, rows)
    ends, key_ends = packed.cu_seq_lens_q.tolist(), packed.cu_seq_lens_kv.tolist()
    assert ends == [0, 3, 5, 6, 8, 12] and key_ends == [0, 3, 8, 12, 14, 20]
    for i in range(5):
        part = [x[begin:end].transpose(0, 1)[None] for x, begin, end in (
            (queries, ends[i], ends[i + 1]), (keys, key_ends[i], key_ends[i + 1]), (values, key_ends[i], key_ends[i + 1]))]
        alone = plain_attention(*part, torch.ones(1, part[1].shape[2], dtype=torch.bool), 0.3, True)[0]
        assert torch.allclose(alone, out[places[ends[i] : ends[i + 1]]])


def test_a_packed_grouper_is_made_of_masks_and_refuses_other_shapes():
    own = PrefixGrouperForPackedSequence.from_ungrouped_masks(
        torch.tensor([[0, 1], [1, 1]]), torch.tensor([[1, 0], [1, 1], [1, 1]]), [2, 1], padding_mode=torch.ones(8))
    assert type(own) is PrefixGrouperForPackedSequence and [list(info) for info in own.group_info] == [[1, 1, 2], [2, 2]]
    assert own.get_ungroup_args("cpu")[0][2].shape == (3, 1)
    x = torch.zeros(8, 4, 2)
    calls = [
        lambda: own.forward(plain_attention, x[None], x, x), lambda: own.forward(plain_attention, x, x[1:], x),
        lambda: own.ungroup(x, x, x[1:]), lambda: own.prepare_packed_qkv(x[1:], x, x), lambda: own.split_output(x[1:]),
        lambda: PrefixGrouperForPackedSequence(GROUPS, padding_mode=torch.ones(11)),
        lambda: PrefixGrouperForPackedSequence(GROUPS, padding_mode=torch.ones(2, 6)),
        lambda: PrefixGrouperForPackedSequence(GROUPS, padding_mode="right"),
    ]
    for call in calls:
        with pytest.raises(evenkeel.InputError):
            call()
