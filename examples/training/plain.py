"""The plain trainer: one process, one padded batch, every aggregation of losses written as its definition. It knows nothing
of Evenkeel."""

import copy

import torch
from model import attention


class PaddedBatch:
    """All samples of a step, right-padded: tokens [B, L]; ``predicts`` [B, L - 1] where row t predicts a response token."""

    def __init__(self, samples):
        self.samples = samples
        self.tokens = torch.nn.utils.rnn.pad_sequence([s.tokens for s in samples], batch_first=True)
        self.lengths = torch.tensor([len(s) for s in samples])
        self.positions = torch.arange(self.tokens.shape[1])
        predicted = self.positions[1:]
        prompts = torch.tensor([len(s.prompt) for s in samples])
        self.predicts = (predicted >= prompts[:, None]) & (predicted < self.lengths[:, None])

    def log_probs(self, model):
        """Log-probabilities of each next token: [B, L - 1]."""
        causal = self.positions <= self.positions[:, None]
        sees = causal & (self.positions < self.lengths[:, None, None])
        positions = self.positions.expand(self.tokens.shape)
        logits = model(self.tokens, positions, lambda q, k, v: attention(q, k, v, sees))
        return logits[:, :-1].log_softmax(-1).gather(-1, self.tokens[:, 1:, None]).squeeze(-1)


def aggregate(losses, batch, aggregation, *, fully_masked="count", norm_length=1, split=None):
    """The loss of a whole batch out of its tokens' losses [B, L - 1]. ``split`` says, for mindspeed-rl alone, which samples
    (by their ids) are in which micro-batch of which rank: [ranks][micro-batches][samples]."""
    mask = batch.predicts.to(losses.dtype)
    sums, counts = (losses * mask).sum(1), mask.sum(1)
    means = sums / counts.clamp(min=1)
    counted = (counts > 0) | torch.tensor(fully_masked == "count")
    if aggregation == "token-mean":
        return sums.sum() / counts.sum()
    if aggregation == "token-sum":
        return sums.sum()
    if aggregation == "seq-mean-token-sum":
        return sums.sum() / counted.sum()
    if aggregation == "seq-mean-token-mean":
        return means.sum() / counted.sum()
    if aggregation == "seq-mean-token-sum-norm":
        return (sums / norm_length).sum() / counted.sum()
    groups = torch.tensor([s.group for s in batch.samples])
    if aggregation == "prompt-mean":
        prompts = [counted & (groups == group) for group in groups[counted].unique()]
        return sum(means[prompt].sum() / prompt.sum() for prompt in prompts) / len(prompts)
    assert aggregation == "mindspeed-rl"
    place = {s.id: i for i, s in enumerate(batch.samples)}
    total = 0.0
    for of_rank in split:
        rows = [torch.tensor([place[id] for id in ids]) for ids in of_rank if len(ids)]
        of_rank_counted = sum(int(counted[r].sum()) for r in rows)
        for r in rows:
            if counts[r].sum() > 0:
                share = int(counted[r].sum()) / (of_rank_counted * len(split))
                total = total + share * sums[r].sum() / counts[r].sum()
    return total


def gradient_of(model):
    """All gradients, concatenated."""
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def set_gradients(model, gradient):
    """The inverse of gradient_of()."""
    parameters = list(model.parameters())
    for p, part in zip(parameters, gradient.split([p.numel() for p in parameters])):
        p.grad.copy_(part.view_as(p))


class PlainTrainer:
    def __init__(self, model, settings, learning_rate=3e-3):
        self.model = copy.deepcopy(model)
        self.settings = settings  # the arguments of aggregate()
        self.optimizer = torch.optim.Adam(self.model.parameters(), learning_rate)

    def step(self, samples, split=None):
        """One update: (loss, gradient)."""
        batch = PaddedBatch(samples)
        self.optimizer.zero_grad()
        loss = aggregate(-batch.log_probs(self.model), batch, split=split, **self.settings)
        loss.backward()
        self.optimizer.step()
        return loss.item(), gradient_of(self.model)
