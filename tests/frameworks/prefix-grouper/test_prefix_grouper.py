"""Compares the drop-in for PrefixGrouper with the package: equal tensors and gradients for random groups and all kinds of padding."""

import prefix_grouper as package
import pytest
import torch

from evenkeel.drop_in import prefix_grouper as ours

RELATIVE = {torch.float32: 1e-6, torch.float64: 1e-12}
SEEDS = range(4)
HEADS, KV_HEADS, WIDTH = 4, 2, 8


class Case:
    """Random groups, each of a prefix with suffixes, and the padding of grouped tensors."""

    def __init__(self, seed, mode):
        self.random = torch.Generator().manual_seed(seed)
        self.groups = [[self.integer(1, 7), *(self.integer(1, 6) for _ in range(self.integer(1, 4)))] for _ in range(3)]
        self.width = max(map(sum, self.groups)) + (2 if mode == "mask" else 0)
        self.mode = self.mask() if mode == "mask" else mode

    def integer(self, least, end):
        return int(torch.randint(least, end, (), generator=self.random))

    def mask(self):
        mask = torch.zeros(len(self.groups), self.width, dtype=torch.bool)
        for row, group in zip(mask, self.groups):
            row[torch.randperm(self.width, generator=self.random)[: sum(group)]] = True
        return mask

    def rows(self, *shape, dtype):
        return torch.randn(*shape, dtype=dtype, generator=self.random).requires_grad_()

    def both(self):
        return [module.PrefixGrouper(self.groups, padding_mode=self.mode) for module in (package, ours)]

    def padded(self, lengths, extra):
        """Returns a mask [rows, any] of tokens at random places, since tokenizers pad on either side."""
        mask = torch.zeros(len(lengths), max(lengths) + extra, dtype=torch.bool)
        for row, length in zip(mask, lengths):
            first = self.integer(0, row.numel() - length + 1)
            row[first : first + length] = True
        return mask

    def masks(self):
        return self.padded([group[0] for group in self.groups], 2), self.padded([n for group in self.groups for n in group[1:]], 1)


@pytest.fixture(params=[(seed, mode) for seed in SEEDS for mode in ("right", "left", "mask")], ids=str)
def case(request):
    return Case(*request.param)


@pytest.fixture(params=[torch.float32, torch.float64], ids=str)
def dtype(request):
    return request.param


def attention(q, k, v, mask, bias=0.0):
    """Causal attention with padded keys and values whose heads are shared: [b, heads, s, d] to [b, s, heads, d]."""
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    rows, columns = q.shape[2], k.shape[2]
    causal = torch.arange(columns) <= torch.arange(rows)[:, None] + columns - rows
    scores = q @ k.transpose(2, 3) / q.shape[3] ** 0.5 + bias
    scores = scores.masked_fill(~(causal & mask[:, None, None, :].bool()), -1e9)
    return (scores.softmax(-1) @ v).transpose(1, 2)


def results(function, *inputs):
    """Returns the output of a function, and the gradients of a fixed weighted sum of it."""
    out = function(*inputs)
    out = out if isinstance(out, tuple) else (out,)
    total = sum((x * torch.linspace(-1, 1, x.numel(), dtype=x.dtype).view_as(x)).sum() for x in out if x.is_floating_point())
    return [*out, *torch.autograd.grad(total, inputs, allow_unused=True)]


def difference(found, expected):
    assert [x.shape for x in found] == [x.shape for x in expected]
    norms = [((x.double() - y.double()).norm() / y.double().norm().clamp(min=1e-30)).item() for x, y in zip(found, expected)]
    return max(norms)


def require_equal(found, expected, dtype):
    assert difference(found, expected) <= RELATIVE[dtype]


def of_both(case, make, *inputs):
    expected, found = (results(make(grouper), *inputs) for grouper in case.both())
    return found, expected


def queries_keys_values(case, dtype):
    shapes = [(3, heads, case.width, WIDTH) for heads in (HEADS, KV_HEADS, KV_HEADS)]
    return [case.rows(*shape, dtype=dtype) for shape in shapes]


def test_attention(case, dtype):
    inputs = queries_keys_values(case, dtype)
    require_equal(*of_both(case, lambda grouper: lambda q, k, v: on_tokens(grouper, grouper.forward(attention, q, k, v)), *inputs), dtype)


def on_tokens(grouper, grouped):
    return grouped * grouper.padding_mask[:, :, None, None].to(grouped.dtype)


def test_ungrouping(case, dtype):
    require_equal(*of_both(case, lambda grouper: grouper.ungroup, *queries_keys_values(case, dtype)), dtype)


def test_grouping(case, dtype):
    shapes = package.PrefixGrouper(case.groups, padding_mode=case.mode)
    inputs = [case.rows(shape[0], shape[1], HEADS, WIDTH, dtype=dtype) for shape in (shapes.prefix_x_shape, shapes.suffix_x_shape)]
    require_equal(*of_both(case, lambda grouper: grouper.group, *inputs), dtype)


def test_joining_of_padded_prefixes_and_suffixes(case, dtype):
    prefix_mask, suffix_mask = case.masks()
    inputs = [case.rows(*mask.shape, WIDTH, dtype=dtype) for mask in (prefix_mask, suffix_mask)]
    require_equal(*of_both(case, lambda grouper: lambda p, s: grouper.concat_input(p, prefix_mask, s, suffix_mask), *inputs), dtype)


@pytest.mark.parametrize("last", [0, 1])
def test_splitting_of_outputs(case, dtype, last):
    inputs = [case.rows(3, case.width, WIDTH, dtype=dtype)]
    require_equal(*of_both(case, lambda grouper: lambda x: grouper.split_output(x, last), *inputs), dtype)


def test_groups_of_masks(case):
    prefix_mask, suffix_mask = case.masks()
    sizes = [len(group) - 1 for group in case.groups]
    expected, found = (
        module.PrefixGrouper.from_ungrouped_masks(prefix_mask, suffix_mask, sizes, padding_mode=case.mode) for module in (package, ours)
    )
    for name in (
        "prefix_lens ungrouped_suffix_lens total_lens num_samples padding_mask grouped_prefix_mask grouped_suffix_mask "
        "ungrouped_prefix_mask ungrouped_suffix_mask prefix_attn_mask suffix_attn_mask grouped_prefix_indices "
        "grouped_suffix_indices ungrouped_prefix_indices ungrouped_suffix_indices"
    ).split():
        one, other = (torch.as_tensor(getattr(grouper, name)) for grouper in (found, expected))
        assert torch.equal(one.long(), other.long()), name
    assert (found.x_shape, found.prefix_x_shape, found.suffix_x_shape) == (expected.x_shape, expected.prefix_x_shape, expected.suffix_x_shape)


def test_conversion_of_padding(case, dtype):
    mask = case.padded([sum(group) for group in case.groups], 3)
    inputs = [case.rows(*mask.shape, WIDTH, dtype=dtype)]
    expected, found = (
        results(lambda x, module=module: module.PrefixGrouper.convert_padding(x, mask, case.mode), *inputs) for module in (package, ours)
    )
    require_equal(found, expected, dtype)


@pytest.mark.parametrize("wrong", ["a prefix that ends one token early", "suffixes that attend to padding"])
def test_the_comparison_finds_errors(wrong):
    case = Case(1, "right")
    inputs = queries_keys_values(case, torch.float32)
    expected = results(lambda q, k, v: case.both()[0].forward(attention, q, k, v), *inputs)
    if wrong.startswith("a prefix"):
        case.groups = [[prefix - 1, first + 1, *others] for prefix, first, *others in case.groups]
        found = results(lambda q, k, v: case.both()[1].forward(attention, q, k, v), *inputs)
    else:
        everything = lambda q, k, v, mask: attention(q, k, v, torch.ones_like(mask))  # noqa: E731
        found = results(lambda q, k, v: case.both()[1].forward(everything, q, k, v), *inputs)
    assert difference(found, expected) > 1000 * RELATIVE[torch.float32]
