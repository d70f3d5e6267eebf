"""A packer for NeMo-RL, returned by nemo_rl.data.packing.get_packer once it is registered.

    import nemo_rl.distributed.batched_data_dict as batches
    from evenkeel.drop_in.nemo_rl import Packer
    batches.get_packer = lambda algorithm, bin_capacity, **settings: Packer(bin_capacity, **settings)

BatchedDataDict.shard_by_batch_size distributes bins to data-parallel ranks in turn, and requires a multiple of their number. So
evenkeel.plan plans bins for that many ranks, which are returned in that order. Imports neither NeMo-RL nor torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenkeel._c import refuse
from evenkeel.drop_in._schedules import plan_without_empty

__all__ = ["Packer"]


class Packer:
    """Packs sequences into bins of at most ``bin_capacity`` tokens, with the interface of NeMo-RL's SequencePacker.

    bin_capacity           the cap of a bin, in tokens
    collect_metrics        must be False: NeMo-RL's metrics are computed by its own packers
    min_bin_count          minimum number of bins
    bin_count_multiple     the number of bins is a multiple of it: the number of data-parallel ranks that get bins in turn
    max_sequences_per_bin  maximum number of sequences in a bin
    sections               settings of evenkeel.plan; the work of a sequence is by default ``balance={"cost": "flops-7b"}``
    """

    def __init__(
        self,
        bin_capacity: int,
        collect_metrics: bool = False,
        min_bin_count: int | None = None,
        bin_count_multiple: int | None = None,
        max_sequences_per_bin: int | None = None,
        **sections: Any,
    ):
        if collect_metrics:
            refuse("collect_metrics", "is True, but this packer does not collect metrics", "Use the quality of evenkeel.plan's result instead")
        self._ranks = bin_count_multiple or 1
        self._sections = sections
        self._micro_batch = {
            "max_tokens": bin_capacity,
            "max_samples": max_sequences_per_bin,
            "min_count": max(1, -(-(min_bin_count or 0) // self._ranks)),
        }

    def pack(self, sequence_lengths: Sequence[int]) -> list[list[int]]:
        """Returns bins of positions in ``sequence_lengths``, none empty: the first of each rank, then the second of each, and so on.

        Raises LimitError for a sequence above the capacity, and InputError for fewer sequences than bins.
        """
        ranks = plan_without_empty(list(sequence_lengths), self._ranks, self._micro_batch, self._sections, "sequence_lengths")
        return [part for parts in zip(*ranks) for part in parts]
