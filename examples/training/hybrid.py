"""One step of a small hybrid model over context-parallel ranks, and of the same model without cuts: attention in the zigzag
cut, a convolution of width 4 and linear attention in the flat one, and two modules that predict tokens further ahead.

    torchrun --nproc-per-node 2 examples/training/hybrid.py
"""

import json

import torch
from made_up import samples_of
from model import VOCABULARY, attention
from packed import packed_attention
from plain import gradient_of
from ranks import Ranks
from torch import nn

import evenkeel
from evenkeel import routes
from trainer import samples_for

WIDTH, KERNEL, DECAY = 8, 4, 0.9
AHEAD = 2
SHARE_OF_LOSS = 0.3  # for each depth ahead


class Hybrid(nn.Module):
    """Independent of ranks and splits: ``cuts`` of step_over() and of whole() supply rows, states and keys."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.kernel = nn.Parameter(torch.randn(KERNEL, WIDTH) / KERNEL)
        self.attention = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.recurrence = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.ahead = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(AHEAD))

    def forward(self, tokens, tokens_ahead, cuts):
        """Log-probabilities of each depth: [1 + AHEAD] of [rows, VOCABULARY]. ``tokens_ahead`` are the next ones of each row."""
        x = cuts.to_flat(self.embedding(tokens))
        x = cuts.to_zigzag(cuts.convolve(x, self.convolve))
        q, k, v = (part.unsqueeze(-2) for part in self.attention(x).chunk(3, dim=-1))  # one head
        x = cuts.to_flat(x + cuts.attend(q, k, v).squeeze(-2))
        x = cuts.to_zigzag(cuts.recur(x, self.recur))
        of_depths = [x]
        for module, tokens_of_depth in zip(self.ahead, tokens_ahead):
            of_depths.append(torch.tanh(module(of_depths[-1]) + self.embedding(tokens_of_depth)))
        return [(rows @ self.embedding.weight.T).log_softmax(-1) for rows in of_depths]

    def convolve(self, before, rows):
        """Rows [n, WIDTH] that follow the KERNEL - 1 rows ``before``."""
        seen = torch.cat([before, rows])
        return rows + torch.tanh(sum(self.kernel[k] * seen[k : k + len(rows)] for k in range(KERNEL)))

    def recur(self, state, rows):
        """(rows, state after them): a sum of outer products that decays."""
        out = []
        for q, k, v in zip(*self.recurrence(rows).chunk(3, dim=-1)):
            state = DECAY * state + torch.outer(k, v)
            out.append(q @ state)
        return rows + torch.stack(out) if out else rows, state


class OverRanks:
    """The rows of a micro-batch on one rank of its context-parallel group."""

    def __init__(self, micro_batch, cp):
        self.layout, self.cp = micro_batch.layout, cp
        self.attend = packed_attention(micro_batch, cp)
        # Once for all layers.
        self.route = micro_batch.route("zigzag", "flat")
        self.halo = micro_batch.halo_route("flat", KERNEL)
        self.runs = micro_batch.sequence_runs("flat")

    def to_flat(self, rows):
        return self.route.move(rows, group=self.cp.group)

    def to_zigzag(self, rows):
        return self.route.reversed().move(rows, group=self.cp.group)

    def convolve(self, rows, layer):
        before = self.halo.move(rows, group=self.cp.group).view(-1, KERNEL - 1, WIDTH)
        return torch.cat([layer(before[i], rows[self.runs.begin[i] : self.runs.end[i]]) for i in range(len(before))])

    def recur(self, rows, layer):
        """In the flat cut only a rank's first run continues a sequence, and only its last one is continued. A state adds to the
        next one what is left of it: so each rank hands on what its last run adds, and knows the rest from lengths."""
        runs, none = self.runs, rows.new_zeros(WIDTH, WIDTH)
        _, added = layer(none, rows[runs.begin[-1] :][: runs.tokens[-1]])
        # Gradients of gathered tensors are summed over all ranks, so a rank that adds or continues nothing also takes
        # part.
        added = self.cp.gather_with_gradient(added + 0 * rows.sum())
        state = none
        for rank in range(self.cp.rank):
            of_rank = routes.sequence_runs(self.layout, "flat", cp_rank=rank)
            left = DECAY ** int(of_rank.tokens[-1]) if of_rank.member_before[-1] >= 0 else 0.0
            state = left * state + added[rank]
        out = []
        for begin, end, tokens, before in zip(runs.begin, runs.end, runs.tokens, runs.member_before):
            done, _ = layer(state if before >= 0 else none, rows[begin : begin + tokens])
            out += [done, rows[begin + tokens : end]]
        return torch.cat(out) + 0 * added.sum()


class Whole:
    """One sample without splitting."""

    def __init__(self, length):
        sees = torch.tril(torch.ones(length, length, dtype=torch.bool))
        self.attend = lambda q, k, v: attention(q, k, v, sees)

    to_flat = to_zigzag = staticmethod(lambda rows: rows)

    def convolve(self, rows, layer):
        return layer(rows.new_zeros(KERNEL - 1, WIDTH), rows)

    def recur(self, rows, layer):
        return layer(rows.new_zeros(WIDTH, WIDTH), rows)[0]


def at_depth(field, depth):
    return f"{field}@{depth}" if depth else field


def loss_over(model, micro_batch, cp):
    """The losses of all depths of one micro-batch on one rank: [1 + AHEAD]."""
    ahead = [micro_batch[at_depth("input_ids", depth)] for depth in range(1, AHEAD + 1)]
    losses = []
    for depth, log_probs in enumerate(model(micro_batch["input_ids"], ahead, OverRanks(micro_batch, cp))):
        labels = micro_batch[at_depth("labels", depth)].clamp(min=0)  # -100 if nothing is predicted
        of_rows = -log_probs.gather(-1, labels.unsqueeze(-1)).squeeze(-1)
        losses.append(micro_batch.scale * (micro_batch.exact_loss_weights_at(depth) * of_rows).sum())
    return torch.stack(losses)


def loss_of_whole(model, samples):
    """The same for all samples, without splitting: for each depth, the mean over all response tokens that it predicts.
    """
    sums, counts = [0.0] * (AHEAD + 1), [0] * (AHEAD + 1)
    for sample in samples:
        tokens, length = sample.tokens, len(sample)
        ahead = [torch.cat([tokens[depth:], tokens.new_zeros(min(depth, length))]) for depth in range(1, AHEAD + 1)]
        for depth, log_probs in enumerate(model(tokens, ahead, Whole(length))):
            first = max(len(sample.prompt), depth + 1)
            labels = tokens[first:]
            rows = log_probs[first - depth - 1 :][: len(labels)]
            sums[depth] = sums[depth] - rows.gather(-1, labels.unsqueeze(-1)).sum()
            counts[depth] += len(labels)
    return torch.stack([total / count for total, count in zip(sums, counts)])


def weighed(losses):
    return losses[0] + SHARE_OF_LOSS * losses[1:].sum()


def prove(ranks, samples, max_tokens):
    """How far losses and gradients over ranks are from those of the model without splitting, relatively; on every rank.
    """
    torch.manual_seed(1)
    model = Hybrid().double()
    config = {"mesh": {"cp": ranks.size}, "micro_batch": {"max_tokens": max_tokens}, "pack": {"predict_ahead": AHEAD}}
    service = evenkeel.DataService(ranks.group, config, tensors="torch")
    step = service.step(samples_for(samples, ranks.rank, ranks.size))
    losses = torch.zeros(AHEAD + 1, dtype=torch.float64)
    for micro_batch in step.micro_batches:
        of_micro_batch = loss_over(model, micro_batch, ranks)
        weighed(of_micro_batch).backward()
        losses += of_micro_batch.detach()
    ranks.sum_(losses)
    gradient = ranks.sum_(gradient_of(model))

    model.zero_grad()
    expected = loss_of_whole(model, samples)
    weighed(expected).backward()
    its_gradient = gradient_of(model)
    return {
        "micro_batches": len(step.micro_batches),
        "losses": losses.tolist(),
        "loss": ((losses - expected).abs() / expected).max().item(),
        "gradient": ((gradient - its_gradient).abs().max() / its_gradient.abs().max()).item(),
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    job = Ranks.of_job()
    told = prove(job, samples_of(0, groups=3, typical=18, longest=60), max_tokens=128)
    if job.rank == 0:
        print(json.dumps(told))
