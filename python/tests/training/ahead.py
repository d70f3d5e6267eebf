"""Computes losses and gradients of a model whose modules predict tokens ahead, each with its own attention: once of a step of
samples with shared prefixes, over ranks, and once of each sample alone."""

import numpy as np
import torch
from made_up import Sample
from model import attention
from packed import shared_attention
from plain import gradient_of
from torch import nn

import evenkeel
from trainer import samples_for

DEPTHS, WIDTH, VOCABULARY = 3, 8, 5


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.inputs = nn.ModuleList(nn.Linear(2 * WIDTH, WIDTH) for _ in range(DEPTHS))
        self.attention = nn.ModuleList(nn.Linear(WIDTH, 3 * WIDTH) for _ in range(1 + DEPTHS))

    def forward(self, tokens_of_depths, attend):
        """Returns log-probabilities of each depth: 1 + DEPTHS arrays [rows, VOCABULARY]. Depth k embeds the tokens k ahead."""
        of_depths, rows = [], None
        for depth, tokens in enumerate(tokens_of_depths):
            embedded = self.embedding(tokens)
            rows = embedded if depth == 0 else torch.tanh(self.inputs[depth - 1](torch.cat([rows, embedded], -1)))
            q, k, v = (part.unsqueeze(-2) for part in self.attention[depth](rows).chunk(3, dim=-1))
            rows = rows + attend(q, k, v).squeeze(-2)
            of_depths.append((rows @ self.embedding.weight.T).log_softmax(-1))
        return of_depths


def samples():
    """Returns samples with few distinct tokens, so responses to a prompt often begin with the same tokens or contain each
    other."""
    random = np.random.default_rng(5)
    made = []
    for group in range(4):
        prompt = random.integers(1, VOCABULARY, [1, 3, 7, 12][group])
        common = random.integers(1, VOCABULARY, 9)
        for _ in range(4):
            shared, own = common[: random.integers(0, 10)], random.integers(1, VOCABULARY, random.integers(0, 6))
            response = np.concatenate([shared, own])
            made.append(Sample(len(made), group, torch.from_numpy(prompt), torch.from_numpy(response)))
    return made


def at_depth(field, depth):
    return f"{field}@{depth}" if depth else field


def rows_of(micro_batch, field, depth):
    """Returns the rows of a field at a depth. At depths above 0, the micro-batch also has the positions of each sample's rows.
    """
    return micro_batch[at_depth(field, depth)][0] if depth else micro_batch[field]


def losses_over(model, micro_batch, ranks):
    tokens = [micro_batch[at_depth("input_ids", depth)] for depth in range(1 + DEPTHS)]
    losses = []
    for depth, log_probs in enumerate(model(tokens, shared_attention(micro_batch, ranks))):
        predicting = log_probs.index_select(0, rows_of(micro_batch, "prediction_rows", depth))
        of_labels = predicting.gather(-1, rows_of(micro_batch, "labels", depth).unsqueeze(-1)).squeeze(-1)
        losses.append(-micro_batch.scale * (micro_batch.exact_loss_weights_at(depth) * of_labels).sum())
    return torch.stack(losses)


def losses_alone(model, all_samples):
    sums, counts = [0.0] * (1 + DEPTHS), [0] * (1 + DEPTHS)
    for sample in all_samples:
        tokens, length = sample.tokens, len(sample)
        sees = torch.tril(torch.ones(length, length, dtype=torch.bool))
        ahead = [torch.cat([tokens[depth:], tokens.new_zeros(min(depth, length))]) for depth in range(1 + DEPTHS)]
        for depth, log_probs in enumerate(model(ahead, lambda q, k, v: attention(q, k, v, sees))):
            labels = tokens[max(len(sample.prompt), depth + 1) :]
            rows = log_probs[length - len(labels) - depth - 1 :][: len(labels)]
            sums[depth] = sums[depth] - rows.gather(-1, labels.unsqueeze(-1)).sum()
            counts[depth] += len(labels)
    return torch.stack([total / count for total, count in zip(sums, counts)])


def set_to_zero(model):
    """Sets gradients to zero: modules for greater depths than that of a loss would have none."""
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)


def prove(ranks, share, cp_layout, max_tokens):
    """Returns the relative differences by depth."""
    torch.manual_seed(1)
    model = Model().double()
    config = {
        "mesh": {"cp": ranks.size},
        "prefix": {"share": share},
        "micro_batch": {"max_tokens": max_tokens},
        "pack": {"cp_layout": cp_layout, "predict_ahead": DEPTHS},
    }
    step = evenkeel.DataService(ranks.group, config, tensors="torch").step(samples_for(samples(), ranks.rank, ranks.size))
    losses = torch.zeros(1 + DEPTHS, dtype=torch.float64)
    gradients = []
    for depth in range(1 + DEPTHS):
        set_to_zero(model)
        for micro_batch in step.micro_batches:
            of_micro_batch = losses_over(model, micro_batch, ranks)
            of_micro_batch[depth].backward()
            losses[depth] += of_micro_batch[depth].detach()
        gradients.append(ranks.sum_(gradient_of(model)))
    ranks.sum_(losses)
    expected = losses_alone(model, samples())
    apart = []
    for depth, gradient in enumerate(gradients):
        set_to_zero(model)
        expected[depth].backward(retain_graph=True)
        own = gradient_of(model)
        apart.append(((gradient - own).abs().max() / own.abs().max()).item())
    return {
        "tokens": sum(micro_batch.num_tokens for micro_batch in step.micro_batches),
        "of": sum(map(len, samples())),
        "loss": ((losses - expected).abs() / expected).max().item(),
        "gradients": apart,
    }
