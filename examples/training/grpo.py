"""A GRPO loop over Evenkeel beside a plain one: log-probabilities under one profile, home, and back in under another.

    mpirun -n 4 python3 examples/training/grpo.py --cp 2 --share true

Responses are made up, several for each prompt; a response's reward is its share of the letter e."""

import argparse

import torch
from made_up import samples_of
from packed import log_probs
from plain import PaddedBatch, PlainTrainer, aggregate, gradient_of
from proof import AGGREGATIONS, cap_of, config_of, model_of, ranks_of_context
from ranks import Ranks

import evenkeel
from trainer import Trainer

CLIP = 0.2
UPDATES = 2  # passes over the responses of a step


def rewards_of(samples):
    return torch.tensor([(s.response == ord("e")).double().sum() / max(len(s.response), 1) for s in samples])


def advantages_of(samples):
    """[samples] float64: how much better a response is than the mean of its group, in standard deviations."""
    rewards, groups = rewards_of(samples), torch.tensor([s.group for s in samples])
    advantages = torch.zeros(len(samples), dtype=torch.float64)
    for group in groups.unique():
        own = rewards[groups == group]
        advantages[groups == group] = (own - own.mean()) / (own.std(unbiased=False) + 1e-6)
    return advantages


def clipped(log_probs_now, old_log_probs, advantages):
    """(token losses, ratios)."""
    ratios = (log_probs_now - old_log_probs).exp()
    return -torch.minimum(ratios * advantages, ratios.clamp(1 - CLIP, 1 + CLIP) * advantages), ratios


class GrpoTrainer(Trainer):
    def steps(self, samples):
        """Yields one line per update: (loss, gradient, largest distance of a ratio from 1 on any rank)."""
        mine = self.share_of(samples)
        step = self.service.step(mine, "log_prob")
        with torch.no_grad():
            for micro_batch, cp in self.micro_batches_of(step):
                micro_batch.put("old_log_probs", log_probs(self.model, micro_batch, cp), kind="response_token")
        added = self._with_advantages(self.service.collect(step), samples)
        for _ in range(UPDATES):
            step = self.service.step_again(step, "update", added)
            added, self.distance = None, 0.0  # fields that were added remain with the samples
            loss, gradient = self.update(step, self._token_losses)
            yield loss, gradient, max(self.ranks.gather_objects(self.distance))

    def _with_advantages(self, home, samples):
        advantages = dict(zip((s.id for s in samples), advantages_of(samples)))
        mine = [advantages[id] for id in home.ids.tolist()]
        old = home["old_log_probs"]
        repeated = torch.cat([a.expand(n) for a, n in zip(mine, home.response_lengths.tolist())]) if mine else old
        return evenkeel.Samples(
            ids=home.ids, groups=home.groups, prompt_lengths=home.prompt_lengths, response_lengths=home.response_lengths,
            response_token={"old_log_probs": old, "advantages": repeated.to(old.dtype)},
        )

    def _token_losses(self, micro_batch, cp):
        losses, ratios = clipped(
            log_probs(self.model, micro_batch, cp), micro_batch["old_log_probs"], micro_batch["advantages"])
        counted = micro_batch["loss_mask"] != 0
        self.distance = max([self.distance, *(ratios.detach()[counted] - 1).abs().tolist()])
        return torch.where(counted, losses, torch.zeros_like(losses))


class PlainGrpo(PlainTrainer):
    def steps(self, samples, split=None):
        batch = PaddedBatch(samples)
        advantages = advantages_of(samples)[:, None].to(next(self.model.parameters()).dtype)
        with torch.no_grad():
            old = batch.log_probs(self.model)
        for _ in range(UPDATES):
            self.optimizer.zero_grad()
            losses, _ = clipped(batch.log_probs(self.model), old, advantages)
            loss = aggregate(losses, batch, split=split, **self.settings)
            loss.backward()
            self.optimizer.step()
            yield loss.item(), gradient_of(self.model)


def prove(ranks, steps, dtype="float64", samples=samples_of, log_prob_tokens=1024, **settings):
    """One line per update, as in proof.prove(), with the distance of ratios from 1; None on ranks other than 0."""
    torch.set_num_threads(1)
    config = config_of(**settings)
    config["profiles"] = {"log_prob": {"micro_batch": cap_of(settings.get("cp"), log_prob_tokens)}, "update": {}}
    model, loss = model_of(dtype), config["loss"]
    ours = GrpoTrainer(ranks, model, config, learning_rate=3e-3)
    plain = PlainGrpo(model, {name: loss[name] for name in ("aggregation", "fully_masked", "norm_length")})
    lines = []
    for number in range(steps):
        expected = plain.steps(samples(number)) if ranks.rank == 0 else iter([(None, None)] * UPDATES)
        pairs = zip(ours.steps(samples(number)), expected)
        for update, ((got, gradient, distance), (its_loss, its_gradient)) in enumerate(pairs):
            if ranks.rank == 0:
                lines.append({
                    "update": update, "plain": its_loss, "evenkeel": got, "ratio": distance,
                    "loss": abs(got - its_loss) / max(abs(its_loss), 1e-3),  # these losses are close to 0
                    "gradient": ((gradient - its_gradient).abs().max() / its_gradient.abs().max()).item(),
                })
    return lines if ranks.rank == 0 else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--cp", type=ranks_of_context, default=1, help="a number, or flexible")
    parser.add_argument("--share", choices=["false", "true", "tree"], default="false")
    parser.add_argument("--aggregation", choices=AGGREGATIONS[:-1], default="token-mean")  # mindspeed-rl wants the split
    parser.add_argument("--dtype", choices=["float64", "float32"], default="float64")
    parser.add_argument("--log-prob-tokens", type=int, default=1024, help="the log-prob pass's cap; the update's is 512")
    lines = prove(Ranks.of_job(), **vars(parser.parse_args()))
    for number, line in enumerate(lines or []):
        print(f"step {number // UPDATES} update {line['update']}  plain {line['plain']:+.12f}  "
              f"evenkeel {line['evenkeel']:+.12f}  |ratio - 1| {line['ratio']:.1e}")
    if lines:
        first = max(line["ratio"] for line in lines if line["update"] == 0)
        print(f"largest distance: loss {max(line['loss'] for line in lines):.1e}, "
              f"gradient {max(line['gradient'] for line in lines):.1e}, first ratios from 1 {first:.1e}")


if __name__ == "__main__":
    main()
