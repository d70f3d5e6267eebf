"""Plans a step as training frameworks do: each function here calls a framework's own functions, unmodified.

A function gets the lengths of a step's samples, the number of data-parallel ranks, the cap in tokens, and a Clock that
calls the framework. It returns the micro-batches of each rank. A micro-batch of a Trainer is one packed row, or as many
padded rows as would fit below the cap if all of them were as long as the longest sample.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np


class Piece(NamedTuple):
    """A sample, or a part of it, in a micro-batch."""

    sample: int
    tokens: int
    padding: int = 0  # padding tokens, which are also computed
    ranks: int = 1  # number of ranks that share its tokens and work evenly


Ranks = list[list[list[Piece]]]  # by rank and micro-batch


class Clock:
    """Calls functions and measures their processor time. Ranks plan concurrently, so only the slowest rank counts."""

    def __init__(self) -> None:
        self._seconds: dict[int | None, float] = defaultdict(float)  # by rank; None: for all ranks

    def __call__(self, function: Callable[..., Any], *arguments: Any, on_rank: int | None = None, **keywords: Any) -> Any:
        start = time.process_time()
        result = function(*arguments, **keywords)
        self._seconds[on_rank] += time.process_time() - start
        return result

    @property
    def milliseconds(self) -> float:
        slowest = max((seconds for rank, seconds in self._seconds.items() if rank is not None), default=0)
        return 1000 * (self._seconds[None] + slowest)


Way = Callable[[list[int], int, int, Clock], Ranks]


class Peer(NamedTuple):
    """A Python package, and its ways to plan by name."""

    tested: str  # version
    ways: dict[str, Way]


def _padded(lengths: list[int], samples: Sequence[int]) -> list[Piece]:
    longest = max((lengths[sample] for sample in samples), default=0)
    return [Piece(sample, lengths[sample], longest - lengths[sample]) for sample in samples]


def _pieces(row: Any) -> list[Piece]:
    """Returns the pieces in a row whose tokens are sample numbers, or negative for padding."""
    return [Piece(int(sample), int(count)) for sample, count in zip(*np.unique(row, return_counts=True)) if sample >= 0]


def _verl(lengths: list[int], dp: int, cap: int, call: Clock) -> Ranks:
    """PPOTrainer._balance_batch gives ranks equal numbers of samples; engines then make equal numbers of micro-batches."""
    import torch
    from tensordict import TensorDict
    from verl.utils.seqlen_balancing import calculate_workload, get_seqlen_balanced_partitions, rearrange_micro_batches

    def micro_batches_of(rank: int, least: int) -> list[list[Piece]]:
        offsets = torch.tensor([0, *np.cumsum([lengths[sample] for sample in shares[rank]])])
        tokens = torch.nested.nested_tensor_from_jagged(torch.zeros(int(offsets[-1]), dtype=torch.int8), offsets)
        batch = TensorDict({"input_ids": tokens}, batch_size=[len(shares[rank])])
        _, found = call(rearrange_micro_batches, batch, cap, min_num_micro_batch=least, on_rank=rank)
        return [[Piece(shares[rank][place], lengths[shares[rank][place]]) for place in places] for places in found]

    work = call(calculate_workload, torch.tensor(lengths))
    shares = call(get_seqlen_balanced_partitions, work, k_partitions=dp, equal_size=True)
    ranks = [micro_batches_of(rank, 1) for rank in range(dp)]
    while len(set(map(len, ranks))) > 1:  # ranks agree on the largest number with an all-reduce
        most = max(map(len, ranks))
        ranks = [micro_batches_of(rank, most) for rank in range(dp)]
    return ranks


def _shuffle(count: int) -> list[int]:
    import torch
    from torch.utils.data import RandomSampler

    return list(RandomSampler(range(count), generator=torch.Generator().manual_seed(42)))


def _shard(order: list[int], rows: int, dp: int) -> list[list[list[int]]]:
    """Returns the batches of each rank as Accelerate distributes them for a Trainer's sampler."""
    from accelerate.data_loader import BatchSamplerShard
    from torch.utils.data import BatchSampler

    batches = BatchSampler(order, rows, drop_last=False)
    return [list(BatchSamplerShard(batches, dp, rank, even_batches=False)) for rank in range(dp)]


def _trainer(strategy: str) -> Way:
    """Plans by a train_sampling_strategy of Transformers' Trainer."""

    def way(lengths: list[int], dp: int, cap: int, call: Clock) -> Ranks:
        import torch
        from transformers.trainer_pt_utils import BatchRebalanceSampler, LengthGroupedSampler

        rows = max(1, cap // max(lengths))  # per_device_train_batch_size
        accumulation = max(1, len(lengths) // (dp * rows))  # gradient_accumulation_steps
        if strategy == "batch_rebalance":
            sampler = BatchRebalanceSampler(lengths, len(lengths), dp, accumulation)
            batches = call(sampler._assign, list(range(len(lengths))), lengths)  # for all ranks
        elif strategy == "group_by_length":
            grouped = LengthGroupedSampler(rows * accumulation, lengths=lengths, generator=torch.Generator().manual_seed(42))
            batches = _shard(call(list, grouped), rows, dp)
        else:
            batches = _shard(call(_shuffle, len(lengths)), rows, dp)
        return [[_padded(lengths, batch) for batch in of_rank] for of_rank in batches]

    return way


def _packed(strategy: str) -> Way:
    """Plans by a packing_strategy of TRL's SFTTrainer."""

    def way(lengths: list[int], dp: int, cap: int, call: Clock) -> Ranks:
        import datasets
        from trl import pack_dataset

        datasets.disable_progress_bars()
        data = datasets.Dataset.from_dict({"input_ids": [np.full(length, sample) for sample, length in enumerate(lengths)]})
        rows = call(pack_dataset, data, cap, strategy).with_format("numpy")["input_ids"]
        return [[_pieces(rows[row]) for (row,) in of_rank] for of_rank in _shard(_shuffle(len(rows)), 1, dp)]

    return way


def _megatron(lengths: list[int], dp: int, cap: int, call: Clock) -> Ranks:
    """Hybrid context parallelism with one pass per sample. Ranks synchronize after each group of passes."""
    from megatron.core.pipeline_parallel.hybrid_cp_schedule import BalancedCPScheduler

    scheduler = BalancedCPScheduler(max_seq_len_per_rank=cap, dp_cp_group=SimpleNamespace(size=lambda: dp))
    _, groups = call(scheduler.get_groups_and_subsamples, list(enumerate(lengths)), None)
    ranks: Ranks = [[] for _ in range(dp)]
    for group in groups:
        sharing, passes = Counter(sample for of_rank in group for sample in of_rank), max(map(len, group))
        for rank, of_rank in zip(ranks, group):
            rank += [[Piece(sample, lengths[sample], ranks=sharing[sample])] for sample in of_rank]
            rank += [[] for _ in range(passes - len(of_rank))]
    return ranks


def _torchtitan(lengths: list[int], dp: int, cap: int, call: Clock) -> Ranks:
    """ChatDataset packs the samples of each rank in order. Padding up to the cap is not counted."""
    import datasets
    from torchtitan.hf_datasets.text_datasets import ChatDataset

    class Tokenizer:
        eos_id = -1

        def apply_chat_template(self, messages: list[dict[str, str]], **_: Any) -> str:
            return messages[-1]["content"]

        def encode(self, text: str, **_: Any) -> list[int]:
            return [int(text)] * lengths[int(text)] if text else []

    def messages_of(row: dict[str, Any]) -> list[dict[str, str]]:
        return [{"role": "user", "content": ""}, {"role": "assistant", "content": str(row["sample"])}]

    data, ranks = datasets.Dataset.from_dict({"sample": range(len(lengths))}), []
    for rank in range(dp):
        rows = call(list, ChatDataset(data, Tokenizer(), messages_of, cap, rank, dp), on_rank=rank)
        ranks.append([_pieces(inputs["input"]) for inputs, _ in rows])
    return ranks


PEERS = {
    "verl": Peer("0.9.1", {"dynamic batches": _verl}),
    "transformers": Peer("5.24.0", {strategy: _trainer(strategy) for strategy in ("random", "group_by_length", "batch_rebalance")}),
    "trl": Peer("1.16.0", {strategy: _packed(strategy) for strategy in ("bfd", "wrapped")}),
    "megatron-core": Peer("0.16.1", {"hybrid CP": _megatron}),
    "torchtitan": Peer("0.3.0", {"ChatDataset": _torchtitan}),
}
