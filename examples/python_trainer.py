"""A trainer in Python over the samples that a configuration names: a log-prob pass, results home, an update pass.

    mpirun -n 4 python3 examples/python_trainer.py CONFIG.yaml
    torchrun --nproc-per-node 4 examples/python_trainer.py CONFIG.yaml
"""

import os
import sys

import torch

import evenkeel


def group():
    """The ranks of the job: torch.distributed's where its launcher has set them, else MPI's."""
    if "RANK" in os.environ:
        torch.distributed.init_process_group("gloo")
        return torch.distributed.group.WORLD
    from mpi4py import MPI

    return MPI.COMM_WORLD


def loss_of(model, micro_batch):
    """The micro-batch's part of the loss of the whole batch: whatever it was balanced and packed like."""
    logits = model(micro_batch["input_ids"] % 256)
    losses = torch.nn.functional.cross_entropy(logits, micro_batch["labels"].clamp(min=0) % 256, reduction="none")
    return (micro_batch["loss_weights"] * losses).sum() * micro_batch.scale


def main():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Embedding(256, 16), torch.nn.Linear(16, 256))
    service = evenkeel.DataService(group(), sys.argv[1], tensors="torch")
    for step in service:
        total = 0.0
        for micro_batch in step.micro_batches:
            loss = loss_of(model, micro_batch)
            loss.backward()
            total += loss.item()
            micro_batch.put("seen", micro_batch["position_ids"], kind="token")
        home = service.collect(step)
        print(f"rank {service.rank}: step {step.index}, {len(step.micro_batches)} micro-batches, "
              f"loss {total:.4f}, {len(home)} samples back\n", end="", flush=True)


main()
