"""Makes two passes of PPO over padded batches like verl's and ROLL's DataProto: collects old log-probabilities, computes
advantages on the padded batch, and requires that the loss of the update equals that of the padded batches of all ranks."""

import copy
import pathlib
import sys

import torch
import torch.distributed as distributed

from jobs import group, report_result

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "drop_in"))

import evenkeel
import evenkeel.padded
from stand_ins import DataProto, TensorDict
from trainer import losses_of, model_of


def batch_of(rank):
    """Returns eight samples: prompts padded on the left to 4, responses of several turns padded on the right to 9."""
    generator = torch.Generator().manual_seed(rank)
    prompts, responses = [torch.randint(1, most + 1, (8, 1), generator=generator) for most in (4, 9)]
    at = torch.arange(13)
    mask = (at >= 4 - prompts) & (at < 4 + responses)
    ids = torch.randint(1, 64, (8, 13), generator=generator) * mask
    columns = {"input_ids": ids, "attention_mask": mask.long(), "responses": ids[:, 4:],
               "response_mask": (mask[:, 4:] & (torch.arange(9) % 4 != 3)).long(),
               "score": torch.randn(8, dtype=torch.double, generator=generator)}
    return DataProto(TensorDict(columns, [8]), {"uid": [f"{rank}-{i // 4}" for i in range(8)]})


def changed_copy(model):
    other = copy.deepcopy(model)
    with torch.no_grad():
        other[0].weight += 0.01
    return other


def advantages_of(batch):
    return (batch["score"][:, None] + 0.1 * batch["old_log_probs"]) * batch["response_mask"]


def ppo(losses, old_log_probs, advantages):
    return -(torch.exp(-losses - old_log_probs) * advantages)


over = group()
service = evenkeel.DataService(over, evenkeel.Config.parse(sys.argv[1]))
data, model = batch_of(service.rank), model_of()

step = service.step(evenkeel.padded.samples_of(data, first_id=8 * service.rank), "log_prob")
for part in step:
    part.put("old_log_probs", -losses_of(model, part["input_ids"], part["labels"]).detach(), kind="response_token")
data.batch["old_log_probs"] = evenkeel.padded.results_like(service.collect(step), "old_log_probs", data)
data.batch["advantages"] = advantages_of(data.batch)
old, model = model, changed_copy(model)  # the policy changes between the passes

total = torch.zeros((), dtype=torch.double)
step = service.step(evenkeel.padded.samples_of(data, first_id=8 * service.rank), "update")
scale = service.gradient_scale(step, over="all", dp_ranks="sum", micro_batches="sum")
for part in step:
    losses = losses_of(model, part["input_ids"], part["labels"])
    loss = (part.exact_loss_weights * ppo(losses, part["old_log_probs"], part["advantages"])).sum() * scale
    loss.backward()
    total += loss.detach()
for tensor in (total, *(parameter.grad for parameter in model.parameters())):
    distributed.all_reduce(tensor)

# The same computation on the padded batches of all ranks.
plain, parts, count = changed_copy(model_of()), [], 0
for rank in range(service.size):
    batch = batch_of(rank).batch
    tokens, labels = batch["input_ids"][:, 3:-1], batch["input_ids"][:, 4:]
    before, after = (losses_of(each, tokens.flatten(), labels.flatten()).reshape(labels.shape) for each in (old, plain))
    batch["old_log_probs"] = -before.detach()
    parts.append((ppo(after, batch["old_log_probs"], advantages_of(batch)) * batch["response_mask"]).sum())
    count += batch["response_mask"].sum()
expected = sum(parts) / count
expected.backward()
gradients = [float((one.grad - other.grad).abs().max()) for one, other in zip(model.parameters(), plain.parameters())]
report_result(service.rank, loss=total.item(), expected=expected.item(), gradients=max(gradients))
