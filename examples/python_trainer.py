"""Trains a model on the samples that a configuration names: balanced, packed micro-batches, exact losses, results home.

    mpirun -n 4 python3 examples/python_trainer.py CONFIG.yaml
    torchrun --nproc_per_node 4 examples/python_trainer.py CONFIG.yaml
"""

import os
import sys

import torch

import evenkeel


def job():
    """The job's ranks, and a function that sums a tensor over them: with torch.distributed if its launcher has set it
    up, otherwise with MPI."""
    if "RANK" in os.environ:
        torch.distributed.init_process_group("gloo")
        return torch.distributed.group.WORLD, torch.distributed.all_reduce
    from mpi4py import MPI

    return MPI.COMM_WORLD, lambda tensor: MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, tensor.numpy())


def loss_of(model, micro_batch):
    """The micro-batch's part of the loss of the whole batch, independent of how the batch was balanced and packed."""
    logits = model(micro_batch["input_ids"] % 256)
    losses = torch.nn.functional.cross_entropy(logits, micro_batch["labels"].clamp(min=0) % 256, reduction="none")
    micro_batch.put("losses", losses.detach(), kind="response_token")
    return (micro_batch["loss_weights"] * losses).sum()


def main():
    torch.manual_seed(0)  # the same model on all ranks
    model = torch.nn.Sequential(torch.nn.Embedding(256, 16), torch.nn.Linear(16, 256))
    optimizer = torch.optim.Adam(model.parameters(), 0.03)
    group, sum_over_ranks = job()
    service = evenkeel.DataService(group, sys.argv[1], tensors="torch")
    for step in service:
        optimizer.zero_grad()
        total = torch.zeros(())
        scale = service.gradient_scale(step, over="all", dp_ranks="sum", micro_batches="sum")  # how this loop reduces
        for micro_batch in step:
            loss = loss_of(model, micro_batch) * scale
            loss.backward()
            total += loss.detach()
        for tensor in (total, *(parameter.grad for parameter in model.parameters())):
            sum_over_ranks(tensor)
        optimizer.step()
        home = service.collect(step)
        print(f"rank {service.rank}: step {step.index}, {len(step.micro_batches)} micro-batches, "
              f"loss {total:.4f}, {len(home)} samples back\n", end="", flush=True)


main()
