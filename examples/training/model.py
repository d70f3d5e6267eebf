"""A small GPT over bytes. It is independent of the layout of its sequences: the caller supplies the attention."""

import math

import torch
from torch import nn

VOCABULARY = 256


class SmallGpt(nn.Module):
    """``attend(q, k, v)`` gets tensors [..., rows, heads, dim] and returns one like q; ``positions`` count from 0 in each
    sequence. Returns logits [..., rows, VOCABULARY]."""

    def __init__(self, width=32, heads=4, layers=2):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, tokens, positions, attend):
        x = self.embedding(tokens)
        x = x + sinusoids(positions, x)
        for block in self.blocks:
            x = block(x, attend)
        return self.head(self.norm(x))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first_norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.queries_keys_values = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, attend):
        parts = self.queries_keys_values(self.first_norm(x)).chunk(3, dim=-1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)) for part in parts)
        x = x + self.out(attend(q, k, v).flatten(-2))
        return x + self.mlp(self.second_norm(x))


def sinusoids(positions, like):
    """Positional encodings for a model of any length: [..., rows, width]."""
    width = like.shape[-1]
    rates = torch.exp(torch.arange(0, width, 2, dtype=like.dtype) * (-math.log(10_000.0) / width))
    angles = positions.unsqueeze(-1).to(like.dtype) * rates
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


def attention(q, k, v, sees):
    """Softmax attention of q [..., rows, heads, dim] over those of k and v [..., keys, heads, dim] that ``sees`` [..., rows,
    keys] names."""
    scores = torch.einsum("...qhd,...khd->...hqk", q, k) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(~sees.unsqueeze(-3), -1e30)  # finite: a pad row that sees nothing gets no NaN
    return torch.einsum("...hqk,...khd->...qhd", scores.softmax(dim=-1), v)
