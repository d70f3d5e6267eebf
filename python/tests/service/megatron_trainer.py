"""Makes a training step of Megatron over data_iterator(): megatron_trainer.py CONFIG [per token]. The schedule, the parallel
state and the reduction of gradients match Megatron-Core's for a model without pipeline stages."""

import sys

import torch
import torch.distributed as distributed

import evenkeel
import evenkeel.megatron
from jobs import group, report_result
from trainer import losses_of, model_of, optimizer_of

over = group()
service = evenkeel.DataService(over, evenkeel.Config.parse(sys.argv[1]))
per_token = sys.argv[2:] == ["per token"]
where = {"tensor_model": "tp", "context": "cp", "data": "dp", "pipeline_model": "pp"}


class ParallelState:
    def __getattr__(self, name):
        place, size = service.mesh[where[name.removeprefix("get_").split("_parallel")[0]]]
        return lambda: size if name.endswith("world_size") else place


def replicas():
    """Returns Megatron's data-parallel group with context parallelism: the ranks with this tp."""
    places = [None] * service.size
    distributed.all_gather_object(places, service.mesh["tp"][0])
    made = [distributed.new_group([r for r, at in enumerate(places) if at == tp]) for tp in sorted(set(places))]
    return made[places[service.rank]]


def forward_backward(forward_step, data_iterator, model, num_microbatches):
    """Like forward_backward_no_pipelining, forward_step_calc_loss and finalize_model_grads."""
    results, all_tokens = [], torch.zeros((), dtype=torch.int)
    for _ in range(num_microbatches):
        output, loss_func = forward_step(data_iterator, model)
        loss, num_tokens, figures = loss_func(output)
        if not per_token:
            loss = loss / torch.clamp(num_tokens, min=1) / num_microbatches
        all_tokens += num_tokens
        loss.backward()
        results.append(figures)
    distributed.all_reduce(all_tokens, group=with_cp)
    for parameter in model.parameters():
        distributed.all_reduce(parameter.grad, group=with_cp)
        parameter.grad /= all_tokens if per_token else distributed.get_world_size(with_cp)
    return results


def forward_step(data_iterator, model):
    batch = next(data_iterator)
    assert batch["packed_seq_params"]["qkv_format"] == "thd" and batch["tokens"].shape == batch["labels"].shape
    seen.extend(int(i) for i in batch["micro_batch"].samples if i >= 0)
    losses = losses_of(model, batch["tokens"][0], batch["labels"][0])[None]
    return losses, lambda output: evenkeel.megatron.loss(batch, output)


with_cp = replicas()
model = model_of()
optimizer, losses, samples = optimizer_of(model), [], []
iterator = evenkeel.megatron.data_iterator(service, parallel_state=ParallelState())
for _ in iterator.steps():
    seen = []
    optimizer.zero_grad()
    figures = forward_backward(forward_step, iterator, model, iterator.num_microbatches)
    optimizer.step()
    total = torch.stack([figure["loss"] for figure in figures]).sum()
    distributed.all_reduce(total, group=with_cp)
    losses.append(total.item())
    samples.append(sorted(set(seen)))
report_result(service.rank, losses=losses, samples=samples, mesh=service.mesh)
