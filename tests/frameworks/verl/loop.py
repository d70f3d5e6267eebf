"""Defines the workers of a small asynchronous training loop. Each worker is a process of ray, and they exchange samples through TransferQueue:
Rollouts puts groups of random tokens, LateFields adds log-probabilities and advantages, and Trainer is one of two ranks that train verl's FSDP
engine with verl's PPO loss. verl's own tqbridge fetches the values and stores the results."""

import hashlib
import logging
import os
import time

import numpy as np
import ray
import torch
import torch.distributed as distributed
import transfer_queue
from tensordict import TensorDict
from verl.plugin.platform import set_platform
from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage
from verl.utils import tensordict_utils
from verl.utils.transferqueue_utils import batch_meta2kv_batch_meta, tqbridge
from verl.workers.config import ActorConfig
from verl.workers.utils.losses import ppo_loss
from verl.workers.utils.padding import no_padding_2_padding

from engine import Engine, PlatformCPU, jagged, model_of_shards

GROUPS, GROUP_SIZE, RANKS, VOCABULARY = 32, 4, 2, 50
STEPS = GROUPS // RANKS
ROLLOUT_FIELDS = ["sample", "prompts", "responses", "input_ids", "position_ids", "loss_mask", "response_mask", "rewards"]
LATE_FIELDS = ["old_log_probs", "advantages"]


def digests(data, names):
    """Maps sample and field to a hash of the value: of its dtype, its shape and its bytes."""
    return {(int(sample), name): hashlib.sha256(f"{row.dtype} {tuple(row.shape)}".encode() + row.contiguous().numpy().tobytes()).hexdigest()
            for name in names for sample, row in zip(data["sample"], data[name].unbind())}


class Worker:
    """A process that has joined TransferQueue, and counts how often its requests had to wait for the store."""

    def __init__(self, folder, rank=0, ranks=1):
        set_platform(PlatformCPU())
        torch.set_num_threads(1)
        rendezvous = f"file://{folder}/{type(self).__name__}"
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks))
        distributed.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=ranks)
        transfer_queue.init()
        self.rank, self.waits = rank, 0
        logging.getLogger("evenkeel").addFilter(self.count)

    def count(self, record):
        self.waits += "Trying again" in record.getMessage()
        return True

    def fetch(self, partition, task, rank, batch, fields):
        """Waits until the sampler assigns samples to this rank."""
        request = {"task_name": task, "dp_rank": rank, "batch_index": batch, "partition_id": partition}
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            metadata = transfer_queue.get_client().get_meta(data_fields=fields, batch_size=GROUP_SIZE, partition_id=partition,
                                                            task_name=task, sampling_config=request)
            if metadata.size:
                return batch_meta2kv_batch_meta(metadata)
            time.sleep(0.02)
        raise TimeoutError(f"{task}, batch {batch}: no complete group has arrived within 60 seconds")


@ray.remote(num_cpus=0)
class Rollouts(Worker):
    def run(self, partition):
        """Puts all groups, and returns the digests of their values."""
        put = {}
        for group in range(GROUPS):
            random = np.random.RandomState(group)
            prompt = random.randint(1, VOCABULARY, size=random.randint(2, 9))
            responses = [random.randint(1, VOCABULARY, size=random.randint(1, 40)) for _ in range(GROUP_SIZE)]
            rows = [np.concatenate([prompt, response]) for response in responses]
            data = TensorDict({
                "sample": torch.arange(group * GROUP_SIZE, (group + 1) * GROUP_SIZE),
                "prompts": jagged([prompt] * GROUP_SIZE), "responses": jagged(responses), "input_ids": jagged(rows),
                "position_ids": jagged([np.arange(len(row)) for row in rows]),
                "loss_mask": jagged([(np.arange(len(row)) >= len(prompt)).astype(int) for row in rows]),
                "response_mask": jagged([np.ones(len(response), int) for response in responses]),
                "rewards": torch.as_tensor(random.rand(GROUP_SIZE), dtype=torch.float32),
            }, batch_size=GROUP_SIZE)
            tags = [{"uid": f"g{group}", "total_lengths": len(row), "status": "success"} for row in rows]
            transfer_queue.kv_batch_put([f"g{group}_{i}" for i in range(GROUP_SIZE)], partition, data, tags)
            put.update(digests(data, ROLLOUT_FIELDS))
            time.sleep(0.1)
        return {"put": put, "waits": self.waits}


class EngineWorker(Worker):
    def new_engine(self):
        self.engine = Engine(model_of_shards())
        self.engine.optimizer = torch.optim.SGD(self.engine.module.parameters(), lr=0.5)
        self.engine.optimizer_config = type("Settings", (), {"clip_grad": 1.0})()
        self.engine._qat_enabled = False

    def run_engine(self, data, loss, **options):
        data = data.copy()
        tensordict_utils.assign_non_tensor(data, use_dynamic_bsz=True, max_token_len_per_gpu=96, temperature=1.0,
                                           global_batch_size=RANKS * GROUP_SIZE, **options)
        return self.engine.forward_backward_batch(data, loss, forward_only=loss is None)


@ray.remote(num_cpus=0)
class LateFields(EngineWorker):
    def run(self, partition):
        """Adds late fields to all samples, and returns their digests."""
        self.new_engine()
        self.put = {}
        for batch in range(STEPS):
            for rank in range(RANKS):
                self.add(self.fetch(partition, "late fields", rank, batch, ROLLOUT_FIELDS))
        return {"put": self.put, "waits": self.waits}

    @tqbridge()
    def add(self, data):
        output = self.run_engine(data, None, return_model_output=True)["model_output"]
        lengths = data["responses"].offsets().diff().tolist()
        log_probs = no_padding_2_padding(output["log_probs"], data)
        mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
        scores = torch.zeros(mask.shape)
        scores[:, 0] = data["rewards"]
        advantages, _ = compute_grpo_outcome_advantage(scores, mask.float(), (data["sample"] // GROUP_SIZE).numpy())
        late = TensorDict({name: jagged([row[:length] for row, length in zip(padded, lengths)])
                           for name, padded in zip(LATE_FIELDS, (log_probs, advantages))}, batch_size=len(lengths))
        self.put.update(digests({"sample": data["sample"], **dict(late.items())}, LATE_FIELDS))
        return late


@ray.remote(num_cpus=0)
class Trainer(EngineWorker):
    def run(self, partition):
        """Trains all samples once, and returns their order, the digests of the received values, and the final weights."""
        self.new_engine()
        self.got, self.trained = {}, []
        for batch in range(STEPS):
            metadata = self.fetch(partition, "train", self.rank, batch, ROLLOUT_FIELDS + LATE_FIELDS)
            self.update(metadata)
        weights = torch.cat([parameter.detach().full_tensor().flatten() for parameter in self.engine.module.parameters()])
        return {"got": self.got, "trained": self.trained, "weights": weights.numpy(), "waits": self.waits}

    @tqbridge()
    def update(self, data):
        self.got.update(digests(data, ROLLOUT_FIELDS + LATE_FIELDS))
        self.trained += data["sample"].tolist()
        config = ActorConfig(strategy="fsdp2", rollout_n=GROUP_SIZE, use_dynamic_bsz=True)

        def loss(model_output, data, dp_group=None):
            return ppo_loss(config, model_output, data, dp_group)

        self.engine.optimizer_zero_grad()
        self.run_engine(data, loss)
        self.engine.optimizer_step()
