"""What a trainer needs from its ranks, over mpi4py or torch.distributed: sums, and rows of other ranks with gradients.
"""

from __future__ import annotations

import os

import torch


class Ranks:
    """Some ranks of the job. Pass ``group`` to evenkeel.DataService."""

    def __init__(self, group):
        self.group = group
        self.over_torch = "RANK" in os.environ
        self.rank = torch.distributed.get_rank(group) if self.over_torch else group.rank
        self.size = torch.distributed.get_world_size(group) if self.over_torch else group.size

    @classmethod
    def of_job(cls):
        """All ranks: those of torch.distributed if its launcher has set the variables, otherwise MPI's."""
        if "RANK" in os.environ:
            torch.distributed.init_process_group("gloo")
            return cls(torch.distributed.group.WORLD)
        from mpi4py import MPI

        return cls(MPI.COMM_WORLD)

    def split(self, color):
        """The ranks with the same color, in their order. All ranks of the job must call it."""
        if not self.over_torch:
            return Ranks(self.group.Split(color, self.rank))
        colors = self.gather_objects(color)
        groups = {each: torch.distributed.new_group([rank for rank in range(self.size) if colors[rank] == each])
                  for each in sorted(set(colors))}
        return Ranks(groups[color])

    def sum_(self, tensor):
        """Sums a contiguous tensor over the ranks, in place."""
        if self.size == 1:
            return tensor
        if self.over_torch:
            torch.distributed.all_reduce(tensor, group=self.group)
        else:
            from mpi4py import MPI

            self.group.Allreduce(MPI.IN_PLACE, tensor.numpy())
        return tensor

    def gather(self, tensor):
        """[ranks, ...] of tensors that have the same shape on all ranks."""
        every = torch.empty(self.size, *tensor.shape, dtype=tensor.dtype)
        if self.over_torch and self.size > 1:
            torch.distributed.all_gather(list(every.unbind()), tensor.contiguous(), group=self.group)
        elif self.size > 1:
            self.group.Allgather(tensor.contiguous().numpy(), every.numpy())
        else:
            every[0] = tensor
        return every

    def gather_objects(self, what):
        if not self.over_torch:
            return self.group.allgather(what)
        every = [None] * self.size
        torch.distributed.all_gather_object(every, what, group=self.group)
        return every

    def gather_with_gradient(self, tensor):
        """gather() with gradients, which flow back to the ranks that the rows came from."""
        return _Gather.apply(tensor, self)


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor, ranks):
        ctx.ranks = ranks
        return ranks.gather(tensor.detach())

    @staticmethod
    def backward(ctx, gradient):
        return ctx.ranks.sum_(gradient.contiguous().clone())[ctx.ranks.rank], None
