"""Tests a model of attention, linear attention and a convolution over ranks of torch.distributed, each layer in the cut that it
needs. Losses and gradients must equal those of the model without cuts, sample by sample."""

import functools
import json
import os
import pathlib
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing  # noqa: E402, F811

from evenkeel import PackedTreeLayout, PrefixTree, packing, routes  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "service"))

from jobs import free_port, processes  # noqa: E402

EXAMPLE = pathlib.Path(__file__).parents[3] / "examples" / "training" / "hybrid.py"

WIDTH, DECAY, SIZE, VOCABULARY = 4, 0.9, 6, 11


def made_up_samples(shared):
    """Returns (tokens, prompt length) of each sample."""
    random = np.random.default_rng(5)

    def draw(length):
        return random.integers(0, VOCABULARY, length).tolist()

    if not shared:
        return [(draw(length), prompt) for length, prompt in [(7, 2), (1, 0), (23, 9), (3, 3), (14, 1)]]
    trunk, branch = draw(9), draw(4)
    return [
        (trunk + draw(5), 9),
        (trunk + branch + draw(3), 9),
        (trunk + branch + draw(1), 9),
        (draw(12), 4),
        (trunk + draw(2), 9),
    ]


class Model(torch.nn.Module):
    """A causal convolution, attention, and a decaying sum of outer products, in this order."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.embedding = torch.nn.Parameter(torch.randn(VOCABULARY, SIZE, dtype=torch.float64))
        self.kernel = torch.nn.Parameter(torch.randn(WIDTH, SIZE, dtype=torch.float64) * 0.5)
        self.attention = torch.nn.Parameter(torch.randn(3, SIZE, SIZE, dtype=torch.float64) * 0.4)
        self.linear = torch.nn.Parameter(torch.randn(3, SIZE, SIZE, dtype=torch.float64) * 0.4)

    def convolve(self, before, rows):
        """Returns rows [n, SIZE], given the WIDTH - 1 rows before them."""
        seen = torch.cat([before, rows])
        return rows + torch.tanh(sum(self.kernel[k] * seen[k : k + len(rows)] for k in range(WIDTH)))

    def attend(self, rows, keys, sees):
        q, k, v = rows @ self.attention[0], keys @ self.attention[1], keys @ self.attention[2]
        scores = (q @ k.T).masked_fill(~sees, -torch.inf)
        return rows + torch.softmax(scores, dim=1) @ v

    def recur(self, state, rows):
        """Returns rows [n, SIZE], and the state after them."""
        q, k, v = rows @ self.linear[0], rows @ self.linear[1], rows @ self.linear[2]
        out = []
        for t in range(len(rows)):
            state = DECAY * state + torch.outer(k[t], v[t])
            out.append(q[t] @ state)
        return (rows + torch.stack(out) if out else rows), state

    def losses(self, rows, labels):
        return torch.nn.functional.cross_entropy(rows @ self.embedding.T, labels, reduction="none")


def loss_of_whole_samples(model, samples):
    total = torch.zeros((), dtype=torch.float64)
    for tokens, prompt in samples:
        tokens = torch.tensor(tokens)
        rows = model.embedding[tokens]
        rows = model.convolve(rows.new_zeros(WIDTH - 1, SIZE), rows)
        rows = model.attend(rows, rows, torch.tril(torch.ones(len(rows), len(rows), dtype=torch.bool)))
        rows, _ = model.recur(rows.new_zeros(SIZE, SIZE), rows)
        begin = max(prompt, 1)
        total = total + model.losses(rows[begin - 1 : -1], tokens[begin:]).sum()
    return total


class Gathered(torch.autograd.Function):
    """Concatenates the rows of all ranks."""

    @staticmethod
    def forward(ctx, rows):
        parts = [torch.empty_like(rows) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, rows.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)
        return gradient.chunk(dist.get_world_size())[dist.get_rank()]


def recur_over_ranks(model, rows, sequences, cut, rank):
    """Computes each run from a state of zeros, then adds the contribution of the states before it, whose chain all ranks know.
    """
    runs = [routes.sequence_runs(sequences, cut, cp_rank=r) for r in range(dist.get_world_size())]
    most = max(len(of_rank.tokens) for of_rank in runs)
    ends = rows.new_zeros(most, SIZE, SIZE)
    parts = []
    for begin, tokens in zip(runs[rank].begin, runs[rank].tokens):
        _, end = model.recur(rows.new_zeros(SIZE, SIZE), rows[begin : begin + tokens])
        parts.append(end)
    ends = torch.cat([torch.stack(parts), ends[len(parts) :]])
    all_ends = Gathered.apply(ends)

    def state_after(member, run):
        of = runs[member]
        own = all_ends[member * most + run]
        if of.member_before[run] < 0:
            return own
        return own + DECAY ** int(of.tokens[run]) * state_after(of.member_before[run], of.run_before[run])

    out = []
    for i, (begin, end, tokens) in enumerate(zip(runs[rank].begin, runs[rank].end, runs[rank].tokens)):
        before = runs[rank].member_before[i]
        state = rows.new_zeros(SIZE, SIZE) if before < 0 else state_after(before, runs[rank].run_before[i])
        done, _ = model.recur(state, rows[begin : begin + tokens])
        out += [done, rows[begin + tokens : end]]
    # All ranks take part in the backward pass of the gathered values, even ranks that needed no state.
    return torch.cat(out) + 0 * all_ends.sum()


def loss_on(rank, model, samples, tree, sequences, cut):
    """Returns this rank's part of the loss. Tensors are in zigzag order, as for attention."""
    size = dist.get_world_size()
    tokens = [token for s in range(len(tree.tree)) for token in segment_tokens(tree, samples, s)]
    ids = torch.from_numpy(packing.pack(tree.segments, np.array(tokens), cp_rank=rank))
    route = routes.row_route(tree.segments, "zigzag", cut, cp_rank=rank).to("cpu")
    halo = routes.halo_route(sequences, cut, WIDTH, cp_rank=rank).to("cpu")
    runs = routes.sequence_runs(sequences, cut, cp_rank=rank)

    rows = route.move(model.embedding[ids])
    before = halo.move(rows).view(-1, WIDTH - 1, SIZE)
    rows = torch.cat([model.convolve(before[i], rows[b:e]) for i, (b, e) in enumerate(zip(runs.begin, runs.end))])
    rows = route.reversed().move(rows)

    intervals = [tree.ancestor_intervals(cp_rank=r) for r in range(size)]
    tin, tout = (torch.from_numpy(np.concatenate([part[i] for part in intervals])) for i in range(2))
    here = torch.from_numpy(intervals[rank][0])
    sees = (tin[None, :] <= here[:, None]) & (here[:, None] < tout[None, :])
    rows = model.attend(rows, Gathered.apply(rows), sees)

    rows = recur_over_ranks(model, route.move(rows), sequences, cut, rank)
    rows = route.reversed().move(rows)
    predicting, entries = tree.predictions([prompt for _, prompt in samples]).on(rank)
    labels = np.concatenate([np.array(tokens[prompt:], np.int64) for tokens, prompt in samples])[entries]
    return model.losses(rows[torch.from_numpy(predicting)], torch.from_numpy(labels)).sum()


def segment_tokens(tree, samples, segment):
    of = tree.tree
    depth, length = of.depths[segment], of.lengths[segment]
    return samples[of.first_samples[segment]][0][depth : depth + length]


CASES = [("flat", False), ("contiguous", False), ("flat", True)]
RANKS = 3


def loss_and_gradients_over_ranks(rank, cut, shared):
    samples = made_up_samples(shared)
    tree = PackedTreeLayout(PrefixTree.from_tokens([tokens for tokens, _ in samples]), alignment=2 * RANKS, cp=RANKS)
    model = Model()
    loss = loss_on(rank, model, samples, tree, tree if shared else tree.segments, cut)
    loss.backward()
    found = [loss.detach(), *(parameter.grad for parameter in model.parameters())]
    for value in found:
        dist.all_reduce(value)
    return [value.numpy() for value in found]


def train_on(rank, port, results):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    found = [loss_and_gradients_over_ranks(rank, *case) for case in CASES]
    if rank == 0:
        results.put(found)
        results.close()
        results.join_thread()
    dist.destroy_process_group()


@functools.cache
def results_of_cases():
    """Returns the results of all cases. One job computes them, since starting a job takes longer."""
    results = torch.multiprocessing.get_context("spawn").Queue()
    ranks = torch.multiprocessing.spawn(train_on, (free_port(), results), nprocs=RANKS, join=False)
    found = results.get(timeout=120)
    while not ranks.join():
        pass
    return dict(zip(CASES, found))


@pytest.mark.parametrize("cut, shared", CASES)
def test_losses_and_gradients_are_those_of_the_uncut_model(cut, shared):
    found = results_of_cases()[cut, shared]
    model = Model()
    loss = loss_of_whole_samples(model, made_up_samples(shared))
    loss.backward()
    expected = [loss.detach(), *(parameter.grad for parameter in model.parameters())]
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        assert np.abs(a - b.numpy()).max() < 1e-9


@pytest.mark.skipif(not EXAMPLE.exists(), reason="the package is tested without the repository")
def test_the_example_has_the_losses_of_all_depths_and_the_gradients_of_the_uncut_model():
    done = processes([sys.executable, str(EXAMPLE)], 2, over="torch")
    (results,) = (json.loads(line) for process in done for line in process.stdout.splitlines() if line.startswith("{"))
    assert results["micro_batches"] > 1 and len(results["losses"]) == 3
    assert results["loss"] < 1e-9 and results["gradient"] < 1e-9
