"""Two steps, a later pass and results over all ranks; prints a digest of every byte that this rank was handed."""

import hashlib
import sys

import numpy as np
from jobs import group, tell

import evenkeel

config, = sys.argv[1:]
service = evenkeel.DataService(group(), evenkeel.Config.parse(config), tensors="numpy")
digest = hashlib.sha256()


def samples_of(step):
    """A third of the step's samples is on rank 0, and all others have the rest."""
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


exact = True
groups = [] if "any" in config else service.context_groups()
grouped = True


def add(what):
    global exact, grouped
    for number, micro_batch in enumerate(what.micro_batches):
        ranks = service.context_ranks(what, number)
        first, size, rank = micro_batch.context
        grouped = grouped and len(ranks) == size and ranks[rank] == service.rank and (not groups or ranks in groups)
        exact = exact and np.array_equal(micro_batch.exact_loss_weights.astype(np.float32), micro_batch["loss_weights"])
        exact = exact and (micro_batch.tree is None) == (micro_batch.prediction_offsets is None)
        for name in sorted(micro_batch.tensors):
            digest.update(name.encode() + np.ascontiguousarray(micro_batch[name]).tobytes())
        digest.update(micro_batch.cu_seqlens_padded.tobytes() + str((micro_batch.scale, micro_batch.samples.tolist())).encode())


handed = 0
home = True
for number in range(2):
    mine = samples_of(number)
    step = service.step(mine, "log_prob")
    add(step)
    handed += sum(micro_batch.num_tokens for micro_batch in step.micro_batches)
    for micro_batch in step.micro_batches:
        micro_batch.put("back", micro_batch["input_ids"], kind="token")
    back = service.collect(step)
    if service.mesh["pp"][1] == 1:
        home = home and np.array_equal(back["back"], mine["input_ids"]) and back.ids.tolist() == mine.ids.tolist()
    step = service.step_again(step, "update", back)
    add(step)
tell(service.rank, digest=digest.hexdigest(), tokens=handed, home=bool(home), exact=exact, grouped=grouped, mesh=service.mesh)
