"""The model on a micro-batch of shared prefixes with one path in memory at a time: the steps of ``micro_batch.schedule``.

Keys and values of each open piece are detached from what made them. Pieces below leave gradients there, which the piece's own
backward pass takes on. Context-parallel ranks run the same steps together, each with its rows of every piece."""

import torch
from model import attention


class OpenPiece:
    def __init__(self, piece, keys_values):
        self.piece = piece
        self.keys_values = [each.detach().requires_grad_() for each in keys_values]  # of each layer: [2, keys, heads, dim]
        self.loss, self.made = None, None  # by its visit


class DepthFirst:
    """``loss_of(log_probs, chosen)`` is the contribution of these predictions of the micro-batch to the loss."""

    def __init__(self, model, micro_batch, cp, loss_of):
        self.model, self.micro_batch, self.cp, self.loss_of = model, micro_batch, cp, loss_of
        self.rows = micro_batch.schedule["rows"].tolist()
        numbers = [micro_batch.tree.ancestor_intervals(cp_rank=rank) for rank in range(cp.size)]
        self.numbers = torch.stack([torch.stack([torch.from_numpy(each) for each in pair]) for pair in numbers])
        self.path, self.total = [], 0.0

    def run(self):
        """Adds the gradients of the loss, and returns it."""
        for kind, piece in self.micro_batch.schedule["steps"]:
            getattr(self, kind)(piece)
        return self.total

    def push(self, piece):
        with torch.no_grad():
            _, made = self.forward(piece, self.path)
        self.path.append(OpenPiece(piece, made))

    def visit(self, piece):
        is_open = bool(self.path) and self.path[-1].piece == piece
        logits, made = self.forward(piece, self.path[:-1] if is_open else self.path)
        if not is_open:
            self.path.append(OpenPiece(piece, made))
        self.path[-1].made, self.path[-1].loss = made, self.loss(piece, logits)
        self.total += self.path[-1].loss.item()

    def pop(self, _):
        done = self.path.pop()
        below = [(made, each.grad) for made, each in zip(done.made, done.keys_values) if each.grad is not None]
        torch.autograd.backward([done.loss, *(made for made, _ in below)], [None, *(gradient for _, gradient in below)])

    def forward(self, piece, path):
        """Logits of its rows, and the keys and values of each layer, those of all CP ranks."""
        begin, end = self.rows[piece]
        tin, tout = torch.cat([self.numbers_of(each) for each in (*(open.piece for open in path), piece)], dim=1)
        queries = self.numbers[self.cp.rank, 0, begin:end].unsqueeze(1)
        sees, made = (tin <= queries) & (queries < tout), []

        def attend(q, k, v):
            own = self.cp.gather_with_gradient(torch.stack([k, v])).transpose(0, 1).flatten(1, 2)
            keys, values = torch.cat([*(open.keys_values[len(made)] for open in path), own], dim=1)
            made.append(own)
            return attention(q, keys, values, sees)

        tokens, positions = self.micro_batch["input_ids"], self.micro_batch["position_ids"]
        return self.model(tokens[begin:end], positions[begin:end], attend), made

    def numbers_of(self, piece):
        """The numbers that define which rows attend to its keys (docs/prefix-sharing.md): [2, keys]."""
        begin, end = self.rows[piece]
        return self.numbers[:, :, begin:end].transpose(0, 1).flatten(1)

    def loss(self, piece, logits):
        begin, end = self.rows[piece]
        rows = self.micro_batch["prediction_rows"]
        chosen = ((rows >= begin) & (rows < end)).nonzero().flatten()
        labels = self.micro_batch["labels"][chosen].clamp(min=0).unsqueeze(-1)
        log_probs = logits.index_select(0, rows[chosen] - begin).log_softmax(-1).gather(-1, labels).squeeze(-1)
        return self.loss_of(log_probs, chosen)
