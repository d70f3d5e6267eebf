"""Properties of the functions under ROLL's names that the vectors do not cover."""

import pickle
import types

import pytest
import torch

import evenkeel
from evenkeel.drop_in import roll
from evenkeel.drop_in.strict import roll as strict_roll
from stand_ins import OrderedDataProto, data_proto, mask_of

LENGTHS = [7, 6, 8, 5, 1, 3, 8, 6]


def settings(cap, least=1):
    return roll.SequencePackingConfig("load_balance", cap, cap, least, least)


def test_a_batch_is_reordered_in_place_with_all_that_belongs_to_it():
    for kind in (type(data_proto([])), OrderedDataProto):
        data = data_proto(LENGTHS, kind=kind)
        metrics = roll.batch_balance(data, 2, 8, "dp")
        order = data.batch["sample"].tolist()
        assert sorted(order) == list(range(8)) and order != list(range(8))
        assert set(metrics) == {f"dp/{n}" for n in ("min", "max", "minmax_diff", "balanced_min", "balanced_max", "mean")}
        if kind is OrderedDataProto:
            assert data.reordered
        else:
            assert data.non_tensor_batch["name"].tolist() == [f"sample {i}" for i in order]


def test_samples_that_ranks_do_not_divide_are_all_dealt_out():
    data = data_proto([3, 2, 1, 4, 2])
    roll.batch_balance(data, 2, 4)
    assert sorted(data.batch["sample"].tolist()) == list(range(5))
    with pytest.raises(evenkeel.InputError):
        roll.batch_balance(data_proto([3, 2, 1]), 2, 2, strict_reference=True)
    with pytest.raises(evenkeel.InputError, match="minibatch_size: is 0"):
        roll.batch_balance(data, 2, 0, keep_minibatch=True)
    for size in (3, 8):
        with pytest.raises(evenkeel.InputError, match="minibatch_size that is divisible"):
            roll.batch_balance(data_proto([1] * 4), 2, size, keep_minibatch=True, strict_reference=True)


def test_the_shard_has_rows_of_everything_and_the_original_stays():
    data = data_proto(LENGTHS, 10)
    batch, metrics = roll.dynamic_batching_shard(data, 2, 12, 2)
    assert data.batch["sample"].tolist() == list(range(8)) and data.meta_info == {"seed": [1]}
    assert batch.batch["sample"].tolist() == [4, 3, 7, 2, 5, 1, 0, 6]
    assert batch.non_tensor_batch["name"].tolist() == [f"sample {i}" for i in [4, 3, 7, 2, 5, 1, 0, 6]]
    assert batch.meta_info["seed"] == [1]
    for prefix in ("", "global_"):
        assert batch.meta_info[f"{prefix}micro_batch_indices"] == [[0, 2], [2, 3], [3, 4]]
    assert batch.meta_info["micro_batch_lengths"] == [6, 8, 8] and batch.meta_info["num_micro_batchs"] == 3
    assert metrics["dynamic_batching/actual_tokens"] == 56 and type(metrics["dynamic_batching/actual_tokens"]) is int
    assert metrics["dynamic_batching/removed_padding_ratio"] == pytest.approx(0.3)


def test_shards_may_differ_by_one_sample():
    batch, _ = roll.dynamic_batching_shard(data_proto([5, 1, 4, 2, 3]), 2, 12, 2)
    assert batch.meta_info["shard_sizes"] == [3, 2]
    assert batch.batch["sample"].tolist() == [1, 4, 0, 3, 2]
    assert [end for _, end in batch.meta_info["global_micro_batch_indices"]][-1] == 3
    with pytest.raises(evenkeel.InputError):
        roll.dynamic_batching_shard(data_proto([5, 1, 4]), 2, 12, 2, strict_reference=True)


def test_micro_batches_are_split_as_often_as_virtual_stages_need():
    batch, _ = roll.dynamic_batching_shard(data_proto([1, 1, 1]), 1, 3, 1, 3, 2)
    assert batch.meta_info["global_micro_batch_indices"] == [[0, 1], [1, 2], [2, 3]]
    with pytest.raises(evenkeel.InputError):
        roll.dynamic_batching_shard(data_proto([1, 1, 1]), 1, 3, 1, 3, 2, strict_reference=True)
    too_few, _ = roll.dynamic_batching_shard(data_proto([1]), 1, 3, 1, 2, 2)
    assert too_few.meta_info["global_micro_batch_indices"] == [[0, 1], [1, 1]]


MORE = [5, 1, 4, 2, 3, 6, 2, 2]


def shard_batch(ranks=1, cap=12, **stages):
    return roll.dynamic_batching_shard(data_proto(MORE, width=8), ranks, cap, 2, **stages)[0]


def samples_of(batches):
    return [batch.batch["sample"].tolist() for batch in batches]


def test_mini_batches_are_runs_of_micro_batches_and_these_are_cut_to_their_lengths():
    data = shard_batch()
    ranges = data.meta_info["global_micro_batch_indices"]
    whole = data.batch["sample"].tolist()
    mini_batches = list(roll.make_mini_batch_iter_for_dynamic_batching(data, epochs=2, ga_steps=2))
    assert len(mini_batches) == 2 * -(-len(ranges) // 2)
    assert [sample for batch in samples_of(mini_batches) for sample in batch] == 2 * whole
    first = mini_batches[0]
    assert first.meta_info["micro_batch_indices"] == [list(part) for part in ranges[:2]]
    assert first.meta_info["num_micro_batchs"] == 2 and first.meta_info["mini_batch_size"] == ranges[1][1]
    assert first.meta_info["seed"] == [1] and first.meta_info is not data.meta_info
    first.batch["log_probs"] = first.batch["input_ids"][:, 1:].float()
    micro_batches = list(roll.make_micro_batch_iter_for_dynamic_batching(first))
    assert samples_of(micro_batches) == [whole[begin:end] for begin, end in ranges[:2]]
    for micro_batch, length in zip(micro_batches, first.meta_info["micro_batch_lengths"]):
        assert micro_batch.batch["input_ids"].shape[1] == length and micro_batch.batch["log_probs"].shape[1] == length - 1
        assert micro_batch.batch["attention_mask"].sum() == sum(MORE[i] for i in micro_batch.batch["sample"].tolist())
        assert micro_batch.non_tensor_batch["name"].tolist() == [f"sample {i}" for i in micro_batch.batch["sample"].tolist()]


def test_a_mini_batch_has_its_own_lengths_and_the_shard_keeps_its():
    data, _ = roll.dynamic_batching_shard(data_proto([2, 4, 7, 6, 3, 4], 20), 2, 20, 2)  # the lengths of ROLL's own test
    of_shard = {name: values for name, values in data.meta_info.items() if "micro_batch" in name}
    assert of_shard["micro_batch_indices"] == [[0, 2], [2, 3]] and of_shard["micro_batch_lengths"] == [4, 8]
    shard = type(data)({name: rows[:3] for name, rows in data.batch.items()}, {}, data.meta_info)  # slices share meta_info
    first, second = roll.make_mini_batch_iter_for_dynamic_batching(shard, 1, 1)
    assert first.meta_info["micro_batch_indices"] == [[0, 2]] and first.meta_info["micro_batch_lengths"] == [4]
    assert second.meta_info["micro_batch_indices"] == [[0, 1]] and second.meta_info["micro_batch_lengths"] == [8]
    assert {name: data.meta_info[name] for name in of_shard} == of_shard
    (micro_batch,) = roll.make_micro_batch_iter_for_dynamic_batching(first)
    assert micro_batch.batch["input_ids"].shape == (2, 4)


@pytest.mark.parametrize("size, stages", [(4, 1), (2, 1), (4, 2), (2, 4), (8, 3)])
def test_mini_batches_that_are_kept_have_so_many_samples_and_a_multiple_of_micro_batches(size, stages):
    data = shard_batch()
    mini_batches = list(roll.make_mini_batch_iter_for_dynamic_batching(
        data, 1, keep_mini_batch=True, mini_batch_size=size, pipeline_model_parallel_size=stages,
        virtual_pipeline_model_parallel_size=2))
    assert [len(batch) for batch in mini_batches] == [size] * (8 // size)
    for batch in mini_batches:
        ranges = batch.meta_info["micro_batch_indices"]
        assert len(ranges) % stages == 0 and ranges[0][0] == 0 and ranges[-1][1] == size
        assert all(left[1] == right[0] for left, right in zip(ranges, ranges[1:]))
        assert [i for part in samples_of(roll.make_micro_batch_iter_for_dynamic_batching(batch)) for i in part] == \
            batch.batch["sample"].tolist()


@pytest.mark.parametrize("wrong", [
    {"ga_steps": 0}, {"keep_mini_batch": True}, {"keep_mini_batch": True, "mini_batch_size": 3}])
def test_mini_batches_that_cannot_be_made_are_refused(wrong):
    with pytest.raises(evenkeel.InputError):
        list(roll.make_mini_batch_iter_for_dynamic_batching(shard_batch(), 1, **wrong))
    data = shard_batch()
    data.meta_info["global_micro_batch_indices"] = data.meta_info["global_micro_batch_indices"][1:]
    with pytest.raises(evenkeel.InputError, match="for 8 samples"):
        list(roll.make_mini_batch_iter_for_dynamic_batching(data, 1))


def test_mini_batches_with_too_few_samples_for_the_stages_get_empty_micro_batches_unless_strict():
    data, wanted = shard_batch(), {"keep_mini_batch": True, "mini_batch_size": 2, "pipeline_model_parallel_size": 4,
                               "virtual_pipeline_model_parallel_size": 2}
    first = next(roll.make_mini_batch_iter_for_dynamic_batching(data, 1, **wanted))
    assert first.meta_info["micro_batch_indices"] == [[0, 1], [1, 2], [2, 2], [2, 2]]
    with pytest.raises(evenkeel.InputError, match="which does not divide the"):
        list(strict_roll.make_mini_batch_iter_for_dynamic_batching(data, 1, **wanted))


def test_errors_of_strict_functions_are_also_assertion_errors():
    data = shard_batch()
    data.meta_info["global_micro_batch_indices"] = [[0, 3], [4, 8]]
    for kind in (AssertionError, ValueError, evenkeel.InputError):
        with pytest.raises(kind, match="contiguous.*complete local batch"):
            list(strict_roll.make_mini_batch_iter_for_dynamic_batching(data, 1))
    with pytest.raises(AssertionError) as told:
        strict_roll.batch_balance(data_proto([3, 2, 1]), 2, 2)
    assert told.value.where == "batch" and isinstance(pickle.loads(pickle.dumps(told.value)), AssertionError)
    with pytest.raises(evenkeel.LimitError) as plain:
        roll.dynamic_batching_shard(data_proto([9]), 1, 8, 2)
    assert not isinstance(plain.value, AssertionError)


def test_means_over_micro_batches_become_one_over_samples():
    mini_batch = next(roll.make_mini_batch_iter_for_dynamic_batching(shard_batch(cap=16), 1, ga_steps=9))
    values, means = [], []
    for micro_batch in roll.make_micro_batch_iter_for_dynamic_batching(mini_batch):
        own = micro_batch.batch["sample"].double()
        values += own.tolist()
        means.append(own.mean().item() * roll.get_dynamic_batching_loss_scale(micro_batch, "seq-mean-token-sum"))
    assert len(means) > 1 and sum(means) / len(means) == pytest.approx(sum(values) / len(values))
    with pytest.raises(evenkeel.InputError, match="token-mean"):
        roll.get_dynamic_batching_loss_scale(mini_batch, "token-mean")


def test_the_prefix_of_metrics_may_be_passed_as_in_older_versions():
    old = roll.dynamic_batching_shard(data_proto(LENGTHS), 2, 12, 2, "actor")[1]
    assert old == roll.dynamic_batching_shard(data_proto(LENGTHS), 2, 12, 2, log_prefix="actor")[1]


@pytest.mark.parametrize("arguments", [(0, 12, 2), (2, 0, 2), (2, 12, 0), (2, 7, 2), (2, 1, 2)])
def test_settings_of_dynamic_batching_that_make_no_sense_are_refused(arguments):
    with pytest.raises(evenkeel.Error):
        roll.dynamic_batching_shard(data_proto(LENGTHS), *arguments)


def test_packed_micro_batches_have_descriptive_metadata():
    data = data_proto(LENGTHS, 10)
    micro_batches = list(roll.make_micro_batch_iter_for_sequence_packing(data, 1, 1, 1, True, config=settings(32)))
    partitions = data.meta_info["partition_indices_list"]
    assert sorted(i for part in partitions for i in part) == list(range(8))
    for i, micro_batch in enumerate(micro_batches):
        assert micro_batch.batch["sample"].tolist() == partitions[i]
        assert micro_batch.non_tensor_batch["name"].tolist() == [f"sample {s}" for s in partitions[i]]
        assert micro_batch.meta_info["micro_batch_idx"] == i and micro_batch.meta_info["mini_batch_size"] == 8
        assert micro_batch.meta_info["num_micro_batchs"] == len(micro_batches) == 4
        assert micro_batch.meta_info["partition_indices"] == partitions[i] and not micro_batch.meta_info["is_padding_batch"]
        assert micro_batch.meta_info["seed"] == [1] and micro_batch.meta_info["seed"] is not data.meta_info["seed"]


def test_no_packed_micro_batch_is_above_the_cap():
    for lengths, cap in (([16, 16, 16], 24), ([40, 30, 20, 10, 50], 64), ([5] * 9, 48)):
        data = data_proto(lengths)
        list(roll.make_micro_batch_iter_for_sequence_packing(data, 1, 1, 1, config=settings(cap)))
        for part in data.meta_info["partition_indices_list"]:
            assert sum(-(-lengths[i] // 16) * 16 for i in part) <= cap


def test_samples_above_the_cap_once_they_are_aligned_are_named():
    with pytest.raises(evenkeel.LimitError, match="sample 0"):
        roll.make_micro_batch_iter_for_sequence_packing(data_proto([17]), 1, 1, 1, config=settings(31))
    strict = roll.make_micro_batch_iter_for_sequence_packing(
        data_proto([17]), 1, 1, 1, config=settings(31), strict_reference=True)
    assert len(list(strict)) == 1


def test_algorithm_none_packs_samples_as_they_come():
    data = data_proto(LENGTHS)
    micro_batches = list(roll.make_micro_batch_iter_for_sequence_packing(data, 1, 1, 1, micro_batch_size=4))
    assert [m.batch["sample"].tolist() for m in micro_batches] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert data.meta_info["partition_indices_list"] == [] and data.meta_info["num_micro_batchs"] == 2
    results = {"x": torch.arange(8)}
    assert roll.restore_results_order(results, []) is results
    for size in (None, 0, 3):
        with pytest.raises(evenkeel.InputError):
            roll.make_micro_batch_iter_for_sequence_packing(data, 1, 1, 1, micro_batch_size=size)


def test_results_are_restored_by_the_configured_algorithm():
    partitions = [[2, 0], [1]]
    results = {"x": torch.tensor([[3.0], [1.0], [2.0]], requires_grad=True), "loss": torch.tensor(1.0)}
    restored = roll.restore_results_order(results, partitions, settings(8))
    assert restored["x"].flatten().tolist() == [1.0, 2.0, 3.0] and restored["loss"] is results["loss"]
    restored["x"].sum().backward()
    assert results["x"].grad.sum() == 3
    with pytest.raises(evenkeel.InputError, match="results"):
        roll.restore_results_order({"x": torch.zeros(2)}, partitions, settings(8))
    with pytest.raises(evenkeel.InputError, match="algorithm"):
        roll.get_sequence_packing_packer(types.SimpleNamespace(algorithm="best"))


def strategy(tp_size, cp_size, cp_rank):
    """Returns a ROLL strategy with the attributes that packing uses."""
    rank_info = types.SimpleNamespace(tp_size=tp_size, cp_size=cp_size, cp_rank=cp_rank)

    class Strategy:
        worker = types.SimpleNamespace(rank_info=rank_info)
        _get_pad_factor = roll._get_pad_factor
        _pack_sequences = roll._pack_sequences
        _unpack_sequences = roll._unpack_sequences

    return Strategy()


def test_a_strategy_takes_the_functions_as_its_methods():
    lengths = [5, 30, 1]
    ids, mask = torch.arange(3 * 30).reshape(3, 30), mask_of(lengths, 30)
    parts = []
    for rank in range(2):
        own = strategy(1, 2, rank)
        packed, params, cu_seqlens, cu_seqlens_padded = own._pack_sequences(ids, mask, pad_val=-1)
        assert own._get_pad_factor() == 16 and packed.shape == (1, 32) and params.max_seqlen_q == 32
        assert cu_seqlens.tolist() == [0, 5, 35, 36] and cu_seqlens_padded.tolist() == [0, 16, 48, 64]
        parts.append([part[0] for part in own._unpack_sequences(packed, cu_seqlens_padded)])
    for i, length in enumerate(lengths):
        whole = torch.cat([parts[0][i], parts[1][i]])
        assert sorted(whole[whole >= 0].tolist()) == ids[i, :length].tolist()


def test_packing_knows_trailing_dimensions_gradients_and_padding_on_the_left():
    packer = roll.SequencePacker(pad_factor=4)
    mask = mask_of([2, 3], 5, left=True)
    x = torch.randn(2, 5, 3, dtype=torch.double, requires_grad=True)
    packed, *_, ends = packer._pack_sequences(x, mask)
    assert packed.shape == (1, 8, 3) and ends.tolist() == [0, 4, 8]
    assert torch.equal(packed[0, :2], x[0, 3:]) and torch.equal(packed[0, 4:7], x[1, 2:])
    packed.sum().backward()
    assert torch.equal(x.grad, mask[:, :, None].expand(2, 5, 3).double())


@pytest.mark.parametrize("ids, mask, rows", [
    ((2, 4), (2, 5), None), ((2, 4), (3, 4), None), ((4,), (4,), None), ((2, 4), (2, 4), 4)])
def test_tensors_that_cannot_be_packed_are_refused(ids, mask, rows):
    with pytest.raises(evenkeel.InputError):
        roll.SequencePacker()._pack_sequences(torch.zeros(ids), torch.ones(mask), rows)
    with pytest.raises(evenkeel.InputError):
        roll.SequencePacker(cp_size=2, cp_rank=2)._pack_sequences(torch.zeros(2, 4), torch.ones(2, 4))
