"""The trainer over Evenkeel: data-parallel and context-parallel ranks, packed micro-batches under a cap, exact losses."""

import copy

import numpy as np
import torch
from packed import log_probs
from plain import gradient_of, set_gradients

import evenkeel


def samples_for(samples, rank, size, response_fields=None):
    """The samples that this rank supplies, a different number on each rank, as after rollouts. ``response_fields`` are
    further fields by name: functions from a sample to one row per response token."""
    mine = [s for s in samples if (s.id * s.id + s.id // 3) % size == rank]
    return evenkeel.Samples(
        ids=[s.id for s in mine],
        groups=[s.group for s in mine],
        prompt_lengths=[len(s.prompt) for s in mine],
        response_lengths=[len(s.response) for s in mine],
        token={"input_ids": [s.tokens for s in mine] or np.empty(0, np.int64)},
        response_token={name: torch.cat([of(s) for s in mine] or [of(samples[0])[:0]])
                        for name, of in (response_fields or {}).items()},
    )


class Trainer:
    """Every rank makes one, with the same model and configuration, and calls step() with the same samples, of which it
    supplies its own share."""

    def __init__(self, ranks, model, config, learning_rate=3e-3):
        self.ranks = ranks
        self.service = evenkeel.DataService(ranks.group, config, tensors="torch")
        self.context = self._split_by_context()
        self.model = copy.deepcopy(model)
        self.optimizer = torch.optim.Adam(self.model.parameters(), learning_rate)
        settings = self.service.config.settings()
        self.mean_of_micro_batches = settings["loss.micro_batches"] == "mean"
        self.mean_of_dp_ranks = settings["loss.dp_ranks"] == "mean"

    def share_of(self, samples):
        return samples_for(samples, self.ranks.rank, self.ranks.size)

    def token_losses(self, micro_batch, cp):
        return -log_probs(self.model, micro_batch, cp)

    def step(self, samples):
        """One update: (step, loss, gradient)."""
        step = self.service.step(self.share_of(samples))
        return step, *self.update(step, self.token_losses)

    def micro_batches_of(self, step):
        """Each micro-batch with the ranks of its context-parallel group: with ``mesh.cp: flexible`` they have groups of
        their own, and ranks have different numbers of them. Each rank has at least one, so there is always a last one:
        a rank without samples runs an empty one, whose weights are 0, so it adds nothing to the gradients."""
        for number, micro_batch in enumerate(step.micro_batches):
            yield micro_batch, self.context[tuple(self.service.context_ranks(step, number))]

    def split_of(self, step):
        """Which samples were in which micro-batch of which DP rank: [ranks][micro-batches][samples]."""
        mine = [micro_batch.samples[micro_batch.samples >= 0].tolist() for micro_batch in step.micro_batches]
        mesh = self.service.mesh
        every = self.ranks.gather_objects((mesh["dp"][0], mesh["cp"][0], mine))
        return [each for _, cp, each in sorted(every) if cp == 0]

    def update(self, step, token_losses):
        """Sums ``token_losses(micro_batch, cp)`` by their weights, and updates the model."""
        self.optimizer.zero_grad(set_to_none=False)
        total = torch.zeros(1, dtype=torch.float64)
        # for a micro-batch, before gradients flow to ranks that may have another number of them
        share = 1 / len(step.micro_batches) if self.mean_of_micro_batches else 1
        for micro_batch, cp in self.micro_batches_of(step):
            total += self.backward(micro_batch, cp, token_losses, share)
        self._reduce(total)
        gradient = self._reduce(gradient_of(self.model))
        set_gradients(self.model, gradient)
        self.optimizer.step()
        return total.item(), gradient

    def backward(self, micro_batch, cp, token_losses, share):
        """Adds the gradients of a micro-batch's part of the loss, and returns that part."""
        loss = self.weighted(micro_batch, token_losses(micro_batch, cp)) * share
        loss.backward()
        return loss.item()

    def weighted(self, micro_batch, losses, chosen=slice(None)):
        """The loss of a micro-batch, or of those of its rows or predictions that the losses belong to."""
        weights = micro_batch.exact_loss_weights if losses.dtype == torch.float64 else micro_batch["loss_weights"]
        return (weights[chosen] * losses).sum() * micro_batch.scale

    def _reduce(self, values):
        """Reduces as declared in the configuration: sums over CP ranks, sums or means over the others."""
        self.ranks.sum_(values)
        if self.mean_of_dp_ranks:
            values /= self.service.mesh["dp"][1]
        return values

    def _split_by_context(self):
        """The ranks of each context-parallel group that this rank is in, by their numbers."""
        of_size = {}
        for group in self.service.context_groups():
            of_size.setdefault(len(group), []).append(tuple(group))
        found = {}
        for groups in of_size.values():  # groups of one size do not share ranks
            own = next((group for group in groups if self.ranks.rank in group), None)
            found[own] = self.ranks.split(groups.index(own) if own else len(groups))
        return found
