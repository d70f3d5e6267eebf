"""Makes two steps, a later pass and results over all ranks, for each given configuration, and reports a digest of every byte
that this rank got. One job makes all of them, because starting a job takes longer."""

import hashlib
import sys

import numpy as np

import evenkeel
from jobs import group, report_result


def samples_of(service, step):
    """Puts a third of the step's samples on rank 0, and divides the rest among all other ranks."""
    random = np.random.default_rng(step)
    ids = np.arange(30) + 100 * step
    prompts, responses = random.integers(0, 40, 30), random.integers(1, 90, 30)
    owner = np.where(ids % 3 == 0, 0, ids % service.size)
    mine = np.flatnonzero(owner == service.rank)
    lengths = (prompts + responses)[mine]
    return evenkeel.Samples(
        ids=ids[mine], prompt_lengths=prompts[mine], response_lengths=responses[mine], groups=ids[mine] // 6,
        token={"input_ids": [np.arange(n) + 7 * i for i, n in zip(ids[mine], lengths)] or np.empty(0, np.int64)},
        response_token={"values": np.repeat(ids[mine], responses[mine]).astype(np.float32)},
        sample={"rewards": ids[mine].astype(np.float64).reshape(-1, 1)},
    )


class DeliveryDigest:
    """Digests everything that a rank receives, byte by byte."""

    def __init__(self, service, groups):
        self.service, self.groups = service, groups
        self.digest = hashlib.sha256()
        self.exact = self.grouped = True

    def add(self, what):
        for number, micro_batch in enumerate(what.micro_batches):
            ranks = self.service.context_ranks(what, number)
            first, size, rank = micro_batch.context
            self.grouped &= len(ranks) == size and ranks[rank] == self.service.rank and ranks in self.groups
            self.exact &= np.array_equal(micro_batch.exact_loss_weights.astype(np.float32), micro_batch["loss_weights"])
            self.exact &= (micro_batch.tree is None) == (micro_batch.prediction_offsets is None)
            for name in sorted(micro_batch.tensors):
                self.digest.update(name.encode() + np.ascontiguousarray(micro_batch[name]).tobytes())
            others = str((micro_batch.scale, micro_batch.samples.tolist()))
            self.digest.update(micro_batch.cu_seqlens_padded.tobytes() + others.encode())


def steps(over, config):
    service = evenkeel.DataService(over, evenkeel.Config.parse(config), tensors="numpy")
    delivered = DeliveryDigest(service, service.context_groups())
    tokens, collected = 0, True
    for number in range(2):
        mine = samples_of(service, number)
        step = service.step(mine, "log_prob")
        delivered.add(step)
        tokens += sum(micro_batch.num_tokens for micro_batch in step.micro_batches)
        for micro_batch in step.micro_batches:
            micro_batch.put("back", micro_batch["input_ids"], kind="token")
        back = service.collect(step)
        if service.mesh["pp"][1] == 1:
            collected = collected and np.array_equal(back["back"], mine["input_ids"]) and back.ids.tolist() == mine.ids.tolist()
        delivered.add(service.step_again(step, "update", back))
    return {"rank": service.rank, "digest": delivered.digest.hexdigest(), "tokens": tokens, "collected": bool(collected),
            "exact": bool(delivered.exact), "grouped": bool(delivered.grouped), "mesh": service.mesh}


over = group()
results = [steps(over, config) for config in sys.argv[1:]]
report_result(results[0]["rank"], results=results)
