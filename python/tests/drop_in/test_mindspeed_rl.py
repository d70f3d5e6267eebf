"""Properties of the functions under MindSpeed-RL's names that the vectors do not cover."""

import random
import sys
import types

import pytest
import torch

import evenkeel
from evenkeel.drop_in import mindspeed_rl
from stand_ins import config, mask_of


@pytest.mark.parametrize("seed", range(20))
def test_no_micro_batch_is_above_a_cap(seed):
    drawn = random.Random(seed)
    lengths = [drawn.randint(1, 60) for _ in range(drawn.randint(1, 40))]
    cap, most = drawn.randint(60, 150), drawn.choice([None, 1, 2, 5])
    partitions = mindspeed_rl.rearrange_micro_batches(lengths, cap, most)
    assert sorted(i for part in partitions for i in part) == list(range(len(lengths)))
    assert max(sum(lengths[i] for i in part) for part in partitions) <= cap
    assert max(map(len, partitions)) <= (most or len(lengths))


def test_known_breaches_are_mended_and_strict_reference_has_them():
    breaches = {  # lengths, cap, maximum number of samples: result of the reference
        "tokens": (([2, 3, 3, 4, 6, 6, 6, 8], 13, None), 14),
        "samples": (([1, 1, 1, 3], 6, 2), 3),
    }
    lengths, cap, most = breaches["tokens"][0]
    strict = mindspeed_rl.rearrange_micro_batches(lengths, cap, most, strict_reference=True)
    assert max(sum(lengths[i] for i in part) for part in strict) == breaches["tokens"][1]
    lengths, cap, most = breaches["samples"][0]
    strict = mindspeed_rl.rearrange_micro_batches(lengths, cap, most, strict_reference=True)
    assert max(map(len, strict)) == breaches["samples"][1]
    assert max(map(len, mindspeed_rl.rearrange_micro_batches(lengths, cap, most))) == 2
    assert mindspeed_rl.rearrange_micro_batches([2], 1, strict_reference=True) == [[0], [], []]
    with pytest.raises(evenkeel.LimitError, match="sample 0"):
        mindspeed_rl.rearrange_micro_batches([2], 1)


def test_it_packs_bins_if_mindspeed_is_multimodal(monkeypatch):
    lengths = [5, 4, 3, 2]
    for multimodal in (True, False):
        module = types.SimpleNamespace(is_multimodal=lambda: multimodal)
        monkeypatch.setitem(sys.modules, "mindspeed_rl.utils", module)
        bins = mindspeed_rl.balanced_bin_packing(lengths, 7)
        assert (mindspeed_rl.rearrange_micro_batches(lengths, 7) == bins) == multimodal


@pytest.mark.parametrize("arguments", [([1, 2], 0), ([1, -2], 5), ([1, 2], 5, 0), ([1.5], 5)])
def test_settings_and_lengths_that_make_no_sense_are_refused(arguments):
    with pytest.raises(evenkeel.Error):
        mindspeed_rl.rearrange_micro_batches(*arguments)
    with pytest.raises(evenkeel.LimitError):
        mindspeed_rl.balanced_bin_packing([9], 8)


# Removing padding

@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("dtype", [torch.bool, torch.int32, torch.long, torch.float32])
def test_packed_sequences_are_restored_by_the_mask(left, dtype):
    lengths = [3, 0, 5, 1]
    mask = mask_of(lengths, 6, left)
    ids = torch.arange(1, 25).reshape(4, 6) * mask
    packed, positions, labels, seqlens, ends = mindspeed_rl.preprocess_packed_seqs(ids, ids + 100, mask.to(dtype), 4)
    assert packed.shape == labels.shape == positions.shape == (1, 16)
    assert (positions.dtype, seqlens.dtype, ends.dtype) == (torch.int32,) * 3
    assert seqlens.tolist() == lengths and ends.tolist() == [0, 4, 4, 12, 16]
    assert positions[0].tolist() == [*range(4), *range(8), *range(4)]
    back = mindspeed_rl.postprocess_packed_seqs(packed, seqlens, ends, 6)
    right = torch.stack([torch.cat([row[m == 1], row[m == 0] * 0]) for row, m in zip(ids, mask)])
    assert torch.equal(back, right)


def test_gradients_flow_back_through_post_processing():
    seqlens, ends = torch.tensor([3, 2]), torch.tensor([0, 4, 8])
    output = torch.randn(1, 8, 2, dtype=torch.double, requires_grad=True)
    back = mindspeed_rl.postprocess_packed_seqs(output, seqlens, ends, 4, torch.tensor([1, 0]))
    assert torch.equal(back[0, :2], output[0, 0:2]) and not back[0, 2:].any()
    assert not back[1, 0].any() and torch.equal(back[1, 1:2], output[0, 4:5])  # nothing predicts the first token
    back.sum().backward()
    assert output.grad[0, :, 0].tolist() == [1, 1, 0, 0, 1, 0, 0, 0]


def test_bfloat16_and_empty_batches_are_unpacked():
    out = mindspeed_rl.postprocess_packed_seqs(
        torch.ones(1, 4, dtype=torch.bfloat16), torch.tensor([3]), torch.tensor([0, 4]), 5)
    assert out.dtype == torch.bfloat16 and out.tolist() == [[1, 1, 1, 0, 0]]
    empty = torch.zeros(0, 4, dtype=torch.long)
    packed, _, _, seqlens, ends = mindspeed_rl.preprocess_packed_seqs(empty, empty, empty, 4)
    assert packed.shape == (1, 0) and ends.tolist() == [0]
    assert mindspeed_rl.postprocess_packed_seqs(packed, seqlens, ends, 4).shape == (0, 4)


def pre(ids=(2, 4), labels=(2, 4), mask=(2, 4), tp_size=2):
    return mindspeed_rl.preprocess_packed_seqs(*(torch.ones(s, dtype=torch.long) for s in (ids, labels, mask)), tp_size)


def post(output=(1, 8), seqlens=(3, 2), ends=(0, 4, 8), seq_len=4, prompts=None):
    prompts = None if prompts is None else torch.tensor(prompts)
    return mindspeed_rl.postprocess_packed_seqs(
        torch.ones(output), torch.tensor(seqlens), torch.tensor(ends), seq_len, prompts)


@pytest.mark.parametrize("call, arguments", [
    (pre, {"mask": (2, 5)}), (pre, {"labels": (3, 4)}), (pre, {"tp_size": 0}),
    (pre, {"ids": (8,), "labels": (8,), "mask": (8,)}),
    (post, {"output": (2, 8)}), (post, {"output": (8,)}), (post, {"ends": (0, 4)}), (post, {"seq_len": 2}),
    (post, {"output": (1, 5)}), (post, {"prompts": [4, 1]}), (post, {"prompts": [-1, 1]}), (post, {"prompts": [1]}),
])
def test_tensors_that_do_not_belong_together_are_refused(call, arguments):
    call()
    with pytest.raises(evenkeel.InputError):
        call(**arguments)


# Context parallelism

def test_mindspeeds_parallel_state_determines_the_place_of_a_rank(monkeypatch):
    settings = config(context_parallel_size=2)
    with pytest.raises(evenkeel.InputError, match="cp_rank"):
        mindspeed_rl.get_batch_on_this_cp_rank(settings, {"x": torch.arange(8)[None]}, [])
    state = types.SimpleNamespace(get_context_parallel_rank=lambda: 1)
    monkeypatch.setitem(sys.modules, "mindspeed_rl.utils.compute", types.SimpleNamespace(get_parallel_state=lambda: state))
    batch, index = mindspeed_rl.get_batch_on_this_cp_rank(settings, {"x": torch.arange(8)[None]}, [])
    assert batch["x"].tolist() == [[2, 3, 4, 5]] and index.tolist() == [1, 2]


def test_a_hybrid_cut_gives_every_rank_its_own_columns():
    settings = config(context_parallel_size=4, context_parallel_algo="hybrid_cp_algo", ulysses_degree_in_cp=2)
    columns = [mindspeed_rl.get_batch_on_this_cp_rank(settings, {"x": torch.arange(16)[None]}, [], cp_rank=rank)[0]["x"]
               for rank in range(4)]
    assert sorted(torch.cat(columns, 1)[0].tolist()) == list(range(16))
    whole, index = mindspeed_rl.get_batch_on_this_cp_rank(
        settings, {"x": torch.arange(16)[None]}, [], cp_rank=1, strict_reference=True)
    assert whole["x"].shape == (1, 16) and index is None


def test_columns_that_cannot_be_divided_evenly_are_refused():
    each = config(context_parallel_size=2, reset_attention_mask=True, cp_attention_mask_type="causal")
    unknown = config(context_parallel_size=2, context_parallel_algo="rings")
    for settings, ends in ((config(context_parallel_size=2), []), (unknown, []), (each, [5])):
        with pytest.raises(evenkeel.InputError):
            mindspeed_rl.get_batch_on_this_cp_rank(settings, {"x": torch.arange(10)[None]}, ends, cp_rank=0)
    with pytest.raises(evenkeel.InputError):
        mindspeed_rl.get_batch_on_this_cp_rank(config(context_parallel_size=2), {"x": torch.arange(8)[None]}, [], cp_rank=2)


def test_trailing_dimensions_and_several_rows_are_cut_equally():
    x = torch.arange(2 * 8 * 3).reshape(2, 8, 3)
    batch, _ = mindspeed_rl.get_batch_on_this_cp_rank(config(context_parallel_size=2), {"x": x, "n": None}, [], cp_rank=0)
    assert torch.equal(batch["x"], x[:, [0, 1, 6, 7]]) and batch["n"] is None
