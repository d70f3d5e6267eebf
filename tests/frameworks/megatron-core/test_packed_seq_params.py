"""The installed PackedSeqParams accepts the keywords of a micro-batch, and has what Megatron's layers read: the sequence of each row, and
whether there is padding between sequences."""

import json

import pytest
import torch
import torch.distributed as distributed
from megatron.core.packed_seq_params import PackedSeqParams

import evenkeel
import evenkeel.megatron


class ParallelState:
    """Megatron's parallel_state for one process."""

    def __getattr__(self, name):
        return lambda: 1 if name.endswith("world_size") else 0


@pytest.fixture(scope="module")
def group(tmp_path_factory):
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path_factory.mktemp('group')}/store", rank=0, world_size=1)
    yield distributed.group.WORLD
    distributed.destroy_process_group()


def params(group, tmp_path, align):
    lines = [{"prompt_ids": [1, 2], "response_ids": [3] * count} for count in (3, 1, 6)]
    (tmp_path / "rollouts.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    source = {"kind": "jsonl", "path": str(tmp_path / "rollouts.jsonl")}
    service = evenkeel.DataService(group, {"source": source, "batch": {"global_batch": 3}, "pack": {"align": align}})
    iterator = evenkeel.megatron.data_iterator(service, parallel_state=ParallelState())
    for _ in iterator.steps():
        batch = next(iterator)
        return batch, PackedSeqParams(**batch["packed_seq_params"])


def test_every_row_has_its_sequence(group, tmp_path):
    batch, made = params(group, tmp_path, align=4)
    ends = made.cu_seqlens_q_padded.tolist()
    expected = [index for index, (first, last) in enumerate(zip(ends, ends[1:])) for _ in range(first, last)]
    assert made.seq_idx.tolist() == [expected] and made.total_tokens == batch["tokens"].shape[1] == ends[-1]
    assert made.seq_idx.dtype == torch.int32


@pytest.mark.parametrize("align, pad", [(1, False), (4, True)])
def test_padding_between_sequences_is_known_without_a_comparison(group, tmp_path, align, pad):
    _, made = params(group, tmp_path, align)
    assert made.pad_between_seqs is pad is not torch.equal(made.cu_seqlens_q, made.cu_seqlens_q_padded)
    assert (made.qkv_format, made.max_seqlen_q) == ("thd", 8)
