"""The model on a packed micro-batch of one context-parallel rank: what a sequence's rows see, and what is predicted.

Keys and values are gathered over the CP group, whose ranks each have chunks of every sequence."""

import torch
from model import attention


def log_probs(model, micro_batch, cp):
    """The log-probability of each label: [rows], or [predictions] where samples share prefixes. ``cp`` are the ranks of
    the context-parallel group. Rows whose loss weight is 0 contain arbitrary numbers."""
    attend = shared_attention(micro_batch, cp) if micro_batch.tree else packed_attention(micro_batch, cp)
    logits = model(micro_batch["input_ids"], micro_batch["position_ids"], attend)
    if micro_batch.tree:
        logits = logits.index_select(0, micro_batch["prediction_rows"])
    labels = micro_batch["labels"].clamp(min=0)  # -100 if nothing is predicted
    return logits.log_softmax(-1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)


def packed_attention(micro_batch, cp):
    """Sequence after sequence. Pad rows are at the end of a sequence, and their positions continue: no true row attends
    to one."""
    ends = micro_batch.cu_seqlens_padded.long() // cp.size
    sizes = ends.diff().tolist()
    positions = micro_batch["position_ids"]
    of_queries, of_keys = positions.split(sizes), cp.gather(positions).split(sizes, dim=1)
    masks = [keys.flatten() <= queries.unsqueeze(1) for queries, keys in zip(of_queries, of_keys)]

    def attend(q, k, v):
        gathered = cp.gather_with_gradient(torch.stack([k, v]))  # [cp, 2, rows, heads, dim]
        out = []
        for queries, keys_values, sees in zip(q.split(sizes), gathered.split(sizes, dim=2), masks):
            keys, values = keys_values.transpose(0, 1).flatten(1, 2)
            out.append(attention(queries, keys, values, sees))
        return torch.cat(out)

    return attend


def shared_attention(micro_batch, cp):
    """All rows together, with the two numbers per row that define which rows attend to which (docs/prefix-sharing.md).
    """
    numbers = [micro_batch.tree.ancestor_intervals(cp_rank=rank) for rank in range(cp.size)]
    begins, ends = (torch.cat([torch.from_numpy(pair[i]) for pair in numbers]) for i in range(2))
    mine = torch.from_numpy(numbers[cp.rank][0]).unsqueeze(1)
    sees = (begins <= mine) & (mine < ends)

    def attend(q, k, v):
        keys, values = cp.gather_with_gradient(torch.stack([k, v])).transpose(0, 1).flatten(1, 2)
        return attention(q, keys, values, sees)

    return attend
