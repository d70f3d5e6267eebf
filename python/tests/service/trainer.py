"""Trains over the service in float64, and repeats the same training as a plain loop over whole samples.

    trainer.py CONFIG FOLDER STEPS

Resumes from the state in FOLDER, if there is one, and saves its own state there."""

import pathlib
import sys

import torch

import evenkeel
from jobs import group, report_result


def model_of():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Embedding(64, 8), torch.nn.Tanh(), torch.nn.Linear(8, 64)).double()


def optimizer_of(model):
    return torch.optim.SGD(model.parameters(), 0.5, momentum=0.9)


def losses_of(model, tokens, labels):
    return torch.nn.functional.cross_entropy(model(tokens), labels.clamp(min=0), reduction="none")


def train(service, sum_over_ranks, model, optimizer, steps):
    """Trains ``steps`` steps. Returns their losses, and this rank's samples in each."""
    losses, samples = [], []
    for step in service:
        optimizer.zero_grad()
        total = torch.zeros((), dtype=torch.double)
        scale = service.gradient_scale(step, over="all", dp_ranks="sum", micro_batches="sum")
        for micro_batch in step:
            by_token = losses_of(model, micro_batch["input_ids"], micro_batch["labels"])
            part = (micro_batch.exact_loss_weights * by_token).sum() * scale
            part.backward()
            total += part.detach()
        for tensor in (total, *(parameter.grad for parameter in model.parameters())):
            sum_over_ranks(tensor)
        optimizer.step()
        losses.append(total.item())
        samples.append(sorted({int(i) for micro_batch in step for i in micro_batch.samples if i >= 0}))
        if len(losses) == steps:
            break
    return losses, samples


def plain_losses(rollouts, batches):
    """Returns the losses of updates over batches of samples, one sample at a time."""
    model = model_of()
    optimizer, losses = optimizer_of(model), []
    for batch in batches:
        count = sum(len(rollouts[i]["response_ids"]) for i in batch)
        total = torch.zeros((), dtype=torch.double)
        for i in batch:
            prompt, response = rollouts[i]["prompt_ids"], rollouts[i]["response_ids"]
            tokens = torch.tensor(prompt + response)
            total = total + losses_of(model, tokens[:-1], tokens[1:])[len(prompt) - 1 :].sum() / count
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        losses.append(total.item())
    return losses


def main():
    import torch.distributed as distributed

    config, folder, steps = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])
    over = group()
    service = evenkeel.DataService(over, evenkeel.Config.parse(config), tensors="torch")
    model = model_of()
    optimizer = optimizer_of(model)
    if (folder / "state.pt").exists():
        kept = torch.load(folder / "state.pt")
        for one, its in ((service, "service"), (model, "model"), (optimizer, "optimizer")):
            one.load_state_dict(kept[its])
    if "mpi4py.MPI" in sys.modules:
        from mpi4py import MPI

        losses, samples = train(service, lambda x: over.Allreduce(MPI.IN_PLACE, x.numpy()), model, optimizer, steps)
    else:
        losses, samples = train(service, distributed.all_reduce, model, optimizer, steps)
    kept = {"service": service.state_dict(), "model": model.state_dict(), "optimizer": optimizer.state_dict()}
    if service.rank == 0:
        torch.save(kept, folder / "state.pt")
    report_result(service.rank, losses=losses, samples=samples)


if __name__ == "__main__":
    main()
