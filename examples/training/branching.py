"""An agent's loop whose rollouts branch, trained as packed trees, in which every token stands once, and beside it path by path
in a padded batch. Losses and gradients of both are compared at every step.

    mpirun -n 2 python3 examples/training/branching.py --cp 2
    mpirun -n 4 python3 examples/training/branching.py --cp 2 --aggregation prompt-mean --steps 10
    python3 examples/training/branching.py --max-kept 16

A tool names a server, one of four. The agent writes some bytes, and each pushes the server that it equals modulo 4. Where all of them
push the right one, it opens and the next is named; otherwise the agent is asked again. Every turn is tried several times, so that
paths have turns in common. A path's reward is the share of its bytes that pushed the right server."""

import argparse
import copy
import dataclasses
import math

import numpy as np
import torch
from depth_first import DepthFirst
from made_up import Sample
from model import VOCABULARY, SmallGpt, attention
from packed import log_probs
from plain import PaddedBatch, PlainTrainer, aggregate, gradient_of
from proof import AGGREGATIONS, config_of
from ranks import Ranks

from trainer import Trainer, samples_for

FORKS = (2, 2, 2)  # number of attempts per turn
DOORS = 2  # open branches, and the end of the path
BYTES = 2  # tokens of each of the agent's turns


class Path:
    """A path that has not ended: what was said, by whom, and the servers to visit."""

    def __init__(self, task, servers):
        self.task, self.servers, self.pushes = task, servers, []
        self.text, self.by_agent = [], []
        self.say(b"server: %c" % self.servers[0])
        self.prompt_length = len(self.text)

    def say(self, text, by_agent=False):
        self.text += text
        self.by_agent += [by_agent] * len(text)

    def answer(self):
        """The tool's answer to the agent's bytes."""
        pushes = [byte % 4 == self.servers[0] % 4 for byte in self.text[-BYTES:]]
        self.pushes += pushes
        if all(pushes):
            self.servers = self.servers[1:]
        self.say(b" open" if all(pushes) else b" no")
        if not self.has_ended():
            self.say(b" %c" % self.servers[0])

    def has_ended(self):
        return not self.servers or len(self.pushes) == BYTES * len(FORKS)


@dataclasses.dataclass
class Rollout(Sample):
    """A whole path; the paths of one task form a group."""

    by_agent: torch.Tensor  # for each response token
    reward: float
    advantage: float = 0.0


def play(model, number, tasks=4):
    """The rollouts of a step: a pure function of the weights and the step's number."""
    random = np.random.default_rng([11, number])
    paths, ended = [Path(task, random.choice(list(b"abcd"), DOORS).tolist()) for task in range(tasks)], []
    for tries in FORKS:
        paths = [copy.deepcopy(path) for path in paths for _ in range(tries)]
        for _ in range(BYTES if paths else 0):
            for path, byte in zip(paths, next_bytes(model, [path.text for path in paths], random)):
                path.say([byte], by_agent=True)
        for path in paths:
            path.answer()
        ended += [path for path in paths if path.has_ended()]
        paths = [path for path in paths if not path.has_ended()]
    return rollouts_of(ended, number, tasks)


def next_bytes(model, texts, random):
    tokens = torch.nn.utils.rnn.pad_sequence([torch.tensor(text) for text in texts], batch_first=True)
    positions = torch.arange(tokens.shape[1])
    sees = positions <= positions[:, None]
    with torch.no_grad():
        logits = model(tokens, positions.expand(tokens.shape), lambda q, k, v: attention(q, k, v, sees))
    of_next = logits[range(len(texts)), [len(text) - 1 for text in texts]].double().softmax(-1)
    drawn = torch.from_numpy(random.random((len(texts), 1)))
    return torch.searchsorted(of_next.cumsum(-1), drawn).clamp(max=VOCABULARY - 1).flatten().tolist()


def rollouts_of(paths, number, tasks):
    rollouts = []
    for i, path in enumerate(sorted(paths, key=lambda path: path.task)):
        text, by_agent = torch.tensor(path.text), torch.tensor(path.by_agent)
        prompt, response = text[: path.prompt_length], text[path.prompt_length :]
        rollouts.append(Rollout(number * tasks * math.prod(FORKS) + i, number * tasks + path.task, prompt, response,
                                by_agent[path.prompt_length :], sum(path.pushes) / len(path.pushes)))
    for group in {rollout.group for rollout in rollouts}:
        own = [rollout for rollout in rollouts if rollout.group == group]
        rewards = np.array([rollout.reward for rollout in own])
        for rollout, advantage in zip(own, (rewards - rewards.mean()) / (rewards.std() + 1e-6)):
            rollout.advantage = float(advantage)
    return rollouts


class TreeTrainer(Trainer):
    """Turns of the tool carry no loss. A turn of the agent that several paths share is stored once, and has one loss
    term for each of them, with that path's advantage."""

    def share_of(self, rollouts):
        return samples_for(rollouts, self.ranks.rank, self.ranks.size, {
            "loss_mask": lambda rollout: rollout.by_agent,
            "advantages": lambda rollout: torch.full((len(rollout.response),), rollout.advantage, dtype=torch.float64),
        })

    def token_losses(self, micro_batch, cp):
        return -log_probs(self.model, micro_batch, cp) * micro_batch["advantages"]

    def backward(self, micro_batch, cp, token_losses, share):
        if micro_batch.schedule is None:
            return super().backward(micro_batch, cp, token_losses, share)

        def loss_of(log_probs, chosen):
            return self.weighted(micro_batch, -log_probs * micro_batch["advantages"][chosen], chosen) * share

        return DepthFirst(self.model, micro_batch, cp, loss_of).run()

    def rows_of(self, step):
        """Tokens of all ranks, each counted once per micro-batch."""
        first = self.service.mesh["cp"][0] == 0
        return sum(self.ranks.gather_objects(sum(m.tree.tree.num_rows for m in step.micro_batches if m.tree and first)))


class PathTrainer(PlainTrainer):
    """The same with one row of the batch per path."""

    def step(self, rollouts, split=None):
        batch = PaddedBatch(rollouts)
        for predicts, rollout in zip(batch.predicts, rollouts):
            predicts[len(rollout.prompt) - 1 : len(rollout) - 1] &= rollout.by_agent
        advantages = torch.tensor([rollout.advantage for rollout in rollouts], dtype=torch.float64)
        self.optimizer.zero_grad()
        loss = aggregate(-batch.log_probs(self.model) * advantages[:, None], batch, split=split, **self.settings)
        loss.backward()
        self.optimizer.step()
        return loss.item(), gradient_of(self.model)


def prove(ranks, steps, tasks=4, layers=1, learning_rate=0.03, depth_first=False, max_kept=None, **settings):
    """Yields one line per step on rank 0, and None on the others: mean reward, tokens of the paths and of the trees,
    both losses, how far these are apart, and how far gradients are."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = SmallGpt(width=16, layers=layers).double()
    config = config_of(**{"share": "tree", "max_tokens": 512, **settings})
    if depth_first or max_kept:
        config["prefix"] |= {"schedule": "dfs", "max_kept_tokens": max_kept}
    loss = config["loss"]
    trees = TreeTrainer(ranks, model, config, learning_rate)
    paths = PathTrainer(model, {name: loss[name] for name in ("aggregation", "fully_masked", "norm_length")}, learning_rate)
    for number in range(steps):
        rollouts = ranks.gather_objects(play(trees.model, number, tasks) if ranks.rank == 0 else None)[0]
        step, got, gradient = trees.step(rollouts)
        rows, split = trees.rows_of(step), trees.split_of(step)
        if ranks.rank != 0:
            yield None
            continue
        expected, its_gradient = paths.step(rollouts, split)
        schedules = [m.schedule for m in step.micro_batches if m.schedule]
        yield {
            "reward": sum(rollout.reward for rollout in rollouts) / len(rollouts),
            "paths": sum(map(len, rollouts)), "trees": rows, "plain": expected, "evenkeel": got,
            "micro_batches": [len(each) for each in split],
            "kept": max((schedule["peak_kept"] for schedule in schedules), default=rows),
            "recomputed": sum(schedule["recomputed"] for schedule in schedules),
            "loss": abs(got - expected) / max(abs(expected), 1e-3),  # these losses are close to 0
            "gradient": ((gradient - its_gradient).abs().max() / its_gradient.abs().max().clamp(min=1e-6)).item(),
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--cp", type=int, default=1)
    parser.add_argument("--aggregation", choices=AGGREGATIONS, default="token-mean")
    parser.add_argument("--depth-first", action="store_true", help="with one path in memory at a time")
    parser.add_argument("--max-kept", type=int, help="the same, with so many tokens of it between forward and backward")
    options = vars(parser.parse_args())
    lines = []
    for number, line in enumerate(prove(Ranks.of_job(), **options)):
        if line:
            lines.append(line)
            if number % 10 == 0 or number + 1 == options["steps"]:
                print(f"step {number:2}  reward {line['reward']:.2f}  tokens {line['paths']:,} in paths, "
                      f"{line['trees']:,} in trees", flush=True)
    if lines:
        print(f"largest distance from paths: loss {max(line['loss'] for line in lines):.1e}, "
              f"gradient {max(line['gradient'] for line in lines):.1e}")


if __name__ == "__main__":
    main()
