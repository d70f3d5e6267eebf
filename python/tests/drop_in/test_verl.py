"""Properties of the functions under verl's names that the vectors do not cover: kinds of batches and lists, options, errors."""

import random
import subprocess
import sys

import numpy as np
import pytest
import torch

import evenkeel
from evenkeel.drop_in import prefix_grouper, verl
from stand_ins import DataProto, TensorDict, columns_of, data_proto, mask_of

LENGTHS = [5, 2, 8, 3, 7, 1, 4, 6]


def samples_of(micro_batches):
    return [micro_batch["sample"].tolist() for micro_batch in micro_batches]


def test_list_functions_need_no_torch():
    program = """
import sys
from evenkeel.drop_in import mindspeed_rl, roll, verl
verl.get_seqlen_balanced_partitions([3, 1, 2, 4], 2, True)
verl.get_group_balanced_partitions([3, 1, 2], ["a", "a", "b"], 2)
verl.get_reverse_idx([1, 0])
mindspeed_rl.rearrange_micro_batches([3, 1, 2, 4], 5)
print("torch" in sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == "False\n"


@pytest.mark.parametrize("kind", [list, tuple, np.array, torch.tensor, lambda v: np.array(v, dtype=np.float32),
                                  lambda v: torch.tensor(v, dtype=torch.int32), lambda v: [torch.tensor(x) for x in v],
                                  lambda v: [np.int64(x) for x in v], lambda v: [float(x) for x in v]])
def test_lists_of_any_kind_give_lists_of_lists_of_ints(kind):
    expected = verl.karmarkar_karp(LENGTHS, 3, False)
    assert verl.karmarkar_karp(kind(LENGTHS), 3, False) == expected
    assert type(expected) is list and all(type(part) is list for part in expected)
    assert {type(item) for part in expected for item in part} == {int}


@pytest.mark.parametrize("values", [[1.5, 2], [float("nan")], [float("inf")], ["3"], [None], [2**70], [[1, 2]], "12", 7,
                                    None, np.array([[1, 2]]), torch.tensor(3), [1e30]])
def test_lists_of_anything_else_are_refused(values):
    with pytest.raises((evenkeel.InputError, TypeError)):
        verl.get_seqlen_balanced_partitions(values, 1, False)


def test_a_list_that_shrinks_while_it_is_read_is_read_as_it_was():
    class Shrinking:
        def __index__(self):
            values.clear()
            return 1

    values = [1, 2, Shrinking(), 4, 5, 6, 7]
    assert sorted(i for part in verl.karmarkar_karp(values, 2, False) for i in part) == list(range(7))


@pytest.mark.parametrize("arguments, word", [
    (([1, 2], 3, False), "k_partitions"), (([1, 2, 3], 2, True), "equal_size"), (([1, -2], 2, False), "-2"),
    (([1, 2], 0, False), "0"), (([2**62, 1], 1, False), "2^62"),
])
def test_numbers_that_cannot_be_partitioned_are_named(arguments, word):
    with pytest.raises(evenkeel.InputError) as error:
        verl.get_seqlen_balanced_partitions(*arguments)
    assert word in str(error.value)


def test_greedy_partition_gives_each_value_to_the_lightest_group():
    assert verl.greedy_partition([5, 1, 1, 1, 4], 2, False) == [[0], [1, 2, 3, 4]]
    assert verl.greedy_partition([5, 1, 1, 1], 2, True) == [[0, 3], [1, 2]]
    with pytest.raises(evenkeel.InputError):
        verl.greedy_partition([1, 2, 3], 2, True)


@pytest.mark.parametrize("uids", [["a", "b", "a", "c"], np.array(["a", "b", "a", "c"], dtype=object),
                                  torch.tensor([4, 9, 4, 2]), [torch.tensor(u) for u in (4, 9, 4, 2)]])
def test_samples_with_the_same_uid_stay_together_in_any_order(uids):
    partitions = verl.get_group_balanced_partitions([1, 2, 3, 4], uids, 3)
    assert sorted(partitions) == [[0, 2], [1], [3]]
    assert len(verl.get_group_balanced_partitions([1, 2, 3, 4], uids, 2)) == 2
    with pytest.raises(evenkeel.InputError):
        verl.get_group_balanced_partitions([1, 2, 3, 4], uids, 4)
    with pytest.raises(evenkeel.InputError):
        verl.get_group_balanced_partitions([1, 2, 3], uids, 2)


def test_chunks_are_runs_whose_sizes_differ_by_one():
    assert [verl.balanced_chunk_range(9, 4, i) for i in range(4)] == [(0, 3), (3, 5), (5, 7), (7, 9)]
    assert [verl.balanced_chunk_range(2, 3, i) for i in range(3)] == [(0, 1), (1, 2), (2, 2)]
    for wrong in [(9, 0, 0), (9, 4, 4), (9, 4, -1), (-1, 4, 0)]:
        with pytest.raises(evenkeel.InputError):
            verl.balanced_chunk_range(*wrong)


def test_workload_is_that_of_verl_for_ints_arrays_and_tensors():
    assert verl.calculate_workload(3) == 24576 * 3 + 9
    assert verl.calculate_workload(torch.tensor([3])).tolist() == [24576 * 3 + 9]
    assert (verl.ceildiv(7, 3), verl.ceildiv(6, 3)) == (3, 2)
    assert (verl.roundup_divisible(7, 4), verl.roundup_divisible(8, 4)) == (8, 8)


def test_unbalance_is_counted_in_ints():
    metrics = verl.log_seqlen_unbalance([1, 2, 3, 4], [[0, 3], [1, 2]], "x")
    assert metrics == {"x/min": 3, "x/max": 7, "x/minmax_diff": 4, "x/balanced_min": 5, "x/balanced_max": 5, "x/mean": 5.0}
    assert {key: type(value) for key, value in metrics.items()} == {
        key: float if key == "x/mean" else int for key in metrics}
    with pytest.raises(evenkeel.InputError):
        verl.log_seqlen_unbalance([1, 2], [[0], [2]], "x")


# rearrange_micro_batches

def dict_of(columns):
    return columns


def tensor_dict_of(columns):
    return TensorDict(columns, [len(columns["sample"])])


def proto_of(columns):
    return DataProto(columns, {"name": np.arange(len(columns["sample"])).astype(object)}, {"seed": [1]})


def proto_of_tensor_dict(columns):
    return DataProto(tensor_dict_of(columns), {}, {"seed": [1]})


@pytest.mark.parametrize("kind", [dict_of, tensor_dict_of, proto_of, proto_of_tensor_dict])
def test_a_micro_batch_is_of_the_batchs_own_kind(kind):
    batch = kind(columns_of(LENGTHS))
    micro_batches, partitions = verl.rearrange_micro_batches(batch, 12)
    assert sorted(i for part in partitions for i in part) == list(range(8))
    for micro_batch, part in zip(micro_batches, partitions):
        assert type(micro_batch) is type(batch)
        tensors = micro_batch.batch if isinstance(batch, DataProto) else micro_batch
        assert tensors["sample"].tolist() == part
        assert torch.equal(tensors["input_ids"], columns_of(LENGTHS)["input_ids"][part])
        assert sum(LENGTHS[i] for i in part) <= 12
        if isinstance(batch, DataProto):
            assert micro_batch.meta_info == {"seed": [1]}
            assert micro_batch.meta_info["seed"] is not batch.meta_info["seed"]
        if kind is proto_of:
            assert micro_batch.non_tensor_batch["name"].tolist() == part


def test_columns_of_every_kind_are_selected():
    columns = columns_of(LENGTHS)
    weights = torch.arange(8.0, requires_grad=True)
    batch = {
        **columns, "bf16": torch.arange(8).to(torch.bfloat16), "turned": torch.arange(16).reshape(2, 8).T, "weights": weights,
        "three": torch.arange(8 * 6).reshape(8, 2, 3), "flags": torch.arange(8) % 2 == 0, "scalar": torch.tensor(3),
        "names": [f"sample {i}" for i in range(8)], "array": np.arange(8), "temperature": 0.7, "task": "math", "none": None,
        "empty": torch.zeros(8, 0),
    }
    micro_batches, partitions = verl.rearrange_micro_batches(batch, 12)
    for micro_batch, part in zip(micro_batches, partitions):
        for name in ("bf16", "turned", "weights", "three", "flags", "empty"):
            assert torch.equal(micro_batch[name], batch[name][part]) and micro_batch[name].dtype == batch[name].dtype
        assert micro_batch["names"] == [f"sample {i}" for i in part] and micro_batch["array"].tolist() == part
        assert (micro_batch["temperature"], micro_batch["task"], micro_batch["none"]) == (0.7, "math", None)
        assert micro_batch["scalar"] == 3
    sum(micro_batch["weights"].sum() for micro_batch in micro_batches).backward()
    assert weights.grad.tolist() == [1.0] * 8


def test_micro_batches_have_memory_of_their_own():
    batch = columns_of(LENGTHS)
    micro_batches, _ = verl.rearrange_micro_batches(batch, 12)
    for micro_batch in micro_batches:
        micro_batch["input_ids"].zero_()
    assert torch.equal(batch["input_ids"], columns_of(LENGTHS)["input_ids"])


def test_columns_that_have_lost_their_memory_or_their_rows_are_refused():
    freed = torch.arange(8)
    freed.storage().resize_(0)
    for column in (freed, torch.arange(7)):
        with pytest.raises((evenkeel.InputError, IndexError)):
            verl.rearrange_micro_batches({**columns_of(LENGTHS), "column": column}, 12)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int32, torch.float32, torch.float16, torch.bfloat16])
def test_a_mask_may_be_of_any_dtype_and_padded_on_any_side(dtype):
    long = [600, 300, 200, 512]  # sums that float16 and bfloat16 cannot represent
    for left in (False, True):
        batch = {"attention_mask": mask_of(long, 700, left).to(dtype)}
        _, partitions = verl.rearrange_micro_batches(batch, 812)
        assert partitions == verl.rearrange_micro_batches({"attention_mask": mask_of(long, 700)}, 812)[1]


@pytest.mark.skipif(not hasattr(torch, "nested"), reason="this torch has no nested tensors")
@pytest.mark.parametrize("mask", [[1, 1, 1, 2, 2, 2, 0, 0], [0, 0, 0, 0, -10000, -10000, 0, 0], [0.5, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]])
def test_a_mask_of_other_values_than_0_and_1_is_refused(mask):
    with pytest.raises(evenkeel.InputError, match="attention_mask: holds (2|-10000|0.5); a mask can have only 0 and 1"):
        verl.rearrange_micro_batches({"attention_mask": torch.tensor([mask])}, 16)


def test_nested_input_ids_determine_lengths_and_are_selected():
    ids = torch.nested.nested_tensor([torch.full((n,), i) for i, n in enumerate(LENGTHS)])
    batch = {"input_ids": ids, "attention_mask": None, "sample": torch.arange(8)}
    micro_batches, partitions = verl.rearrange_micro_batches(batch, 12)
    assert partitions == verl.rearrange_micro_batches(columns_of(LENGTHS), 12)[1]
    for micro_batch, part in zip(micro_batches, partitions):
        assert [row.tolist() for row in micro_batch["input_ids"].unbind()] == [[i] * LENGTHS[i] for i in part]


@pytest.mark.parametrize("seed", range(20))
def test_no_micro_batch_is_above_the_cap_and_every_sample_is_in_one(seed):
    drawn = random.Random(seed)
    lengths = [drawn.randint(1, 60) for _ in range(drawn.randint(1, 40))]
    cap = drawn.randint(max(lengths), 3 * max(lengths))
    multiple, least = drawn.choice([None, 2, 3]), drawn.choice([None, 1, 5])
    _, partitions = verl.rearrange_micro_batches(
        columns_of(lengths), cap, num_batches_divided_by=multiple, min_num_micro_batch=least)
    assert sorted(i for part in partitions for i in part) == list(range(len(lengths)))
    assert max(sum(lengths[i] for i in part) for part in partitions) <= cap
    assert len(partitions) % (multiple or 1) == 0 and len(partitions) >= (least or 1)
    strict = verl.rearrange_micro_batches(columns_of(lengths), max(cap, 180), strict_reference=True)[1]
    if max(sum(lengths[i] for i in part) for part in strict) <= max(cap, 180):
        assert verl.rearrange_micro_batches(columns_of(lengths), max(cap, 180))[1] == strict


def test_more_micro_batches_than_samples_leaves_some_without_rows():
    micro_batches, partitions = verl.rearrange_micro_batches(columns_of([3, 4]), 4, min_num_micro_batch=3)
    assert sorted(map(len, partitions)) == [0, 1, 1]
    assert sorted(len(m["input_ids"]) for m in micro_batches) == [0, 1, 1]
    assert all(m["input_ids"].shape[1] == 4 for m in micro_batches)
    with pytest.raises(evenkeel.InputError):
        verl.rearrange_micro_batches(columns_of([3, 4]), 4, min_num_micro_batch=3, strict_reference=True)


def test_a_sample_above_the_cap_is_named():
    with pytest.raises(evenkeel.LimitError) as error:
        verl.rearrange_micro_batches(columns_of([3, 9, 4]), 8)
    assert "sample 1" in str(error.value) and "9" in str(error.value) and "8" in str(error.value)
    assert len(verl.rearrange_micro_batches({"attention_mask": mask_of([3, 4], 100)}, 8)[1]) == 1  # the width of the batch does not count
    with pytest.raises(evenkeel.InputError, match="100 columns"):
        verl.rearrange_micro_batches({"attention_mask": mask_of([3, 4], 100)}, 8, strict_reference=True)


@pytest.mark.parametrize("arguments", [{"max_token_len": 0}, {"max_token_len": -3}, {"num_batches_divided_by": -1},
                                       {"max_token_len": 0, "force_group_size": 2},
                                       {"min_num_micro_batch": -1}, {"force_group_size": 0}, {"force_group_size": 3}])
def test_settings_that_make_no_sense_are_refused(arguments):
    with pytest.raises(evenkeel.Error):
        verl.rearrange_micro_batches(columns_of(LENGTHS), **{"max_token_len": 12, **arguments})


def test_groups_of_neighbors_stay_together():
    lengths = [5, 2, 8, 3, 7, 1, 4, 6]
    for strict in (False, True):
        micro_batches, partitions = verl.rearrange_micro_batches(
            columns_of(lengths), 14, force_group_size=2, strict_reference=strict)
        assert samples_of(micro_batches) == partitions
        assert all(part[i] % 2 == 0 and part[i + 1] == part[i] + 1 for part in partitions for i in range(0, len(part), 2))
    assert max(sum(lengths[i] for i in part) for part in verl.rearrange_micro_batches(
        columns_of(lengths), 14, force_group_size=2)[1]) <= 14
    single = verl.rearrange_micro_batches(columns_of(lengths), 14)[1]
    assert verl._GroupedMicroBatches(lengths, 1, 14, 1, 1, True).of(len(single)) == single
    with pytest.raises(evenkeel.LimitError, match="group 1"):
        verl.rearrange_micro_batches(columns_of(lengths), 10, force_group_size=2)


def test_a_batch_without_samples_gives_one_micro_batch_without_rows():
    micro_batches, partitions = verl.rearrange_micro_batches(columns_of([], 4), 8)
    assert partitions == [[]] and micro_batches[0]["input_ids"].shape == (0, 4)


# Restoring the order

def test_outputs_of_micro_batches_are_restored_with_gradients():
    micro_batches, partitions = verl.rearrange_micro_batches(columns_of(LENGTHS), 12)
    out = torch.cat([m["sample"] for m in micro_batches]).double().requires_grad_()
    restored = verl.restore_dynamic_batch(out, partitions)
    assert restored.tolist() == list(range(8))
    (restored * torch.arange(8)).sum().backward()
    assert torch.equal(out.grad, out.detach())
    with pytest.raises(evenkeel.InputError):
        verl.restore_dynamic_batch(out[:7], partitions)
    with pytest.raises(evenkeel.InputError):
        verl.restore_dynamic_batch(out, [[0, 1, 2, 3], [4, 5, 6, 6]])


def test_a_reverse_index_is_of_the_kind_of_the_index():
    order = [2, 0, 3, 1]
    assert verl.get_reverse_idx(order) == [1, 3, 0, 2]
    array = verl.get_reverse_idx(np.array(order, dtype=np.int32))
    assert isinstance(array, np.ndarray) and array.dtype == np.int32 and array.tolist() == [1, 3, 0, 2]
    tensor = verl.get_reverse_idx(torch.tensor(order))
    assert isinstance(tensor, torch.Tensor) and tensor.dtype == torch.long and tensor.tolist() == [1, 3, 0, 2]
    for wrong in ([0, 0], [1, 2], [-1, 0]):
        with pytest.raises(evenkeel.InputError):
            verl.get_reverse_idx(wrong)


def test_a_prepared_batch_is_data_protos_with_their_rows_of_everything():
    data = data_proto(LENGTHS)
    micro_batches, partitions = verl.prepare_dynamic_batch(data, max_token_len=12)
    for micro_batch, part in zip(micro_batches, partitions):
        assert isinstance(micro_batch, DataProto) and len(micro_batch) == len(part)
        assert micro_batch.non_tensor_batch["name"].tolist() == [f"sample {i}" for i in part]
        assert micro_batch.meta_info == {"seed": [1]}
    assert len(data) == 8 and data.batch["sample"].tolist() == list(range(8))


def test_an_import_line_selects_strict_reference():
    from evenkeel.drop_in.strict import prefix_grouper as strict_prefix_grouper
    from evenkeel.drop_in.strict import roll as strict_roll
    from evenkeel.drop_in.strict import verl as strict

    batch = columns_of([2, 2, 2])
    assert len(verl.rearrange_micro_batches(batch, 3)[1]) == 3
    assert strict.rearrange_micro_batches(batch, 3)[1] == verl.rearrange_micro_batches(batch, 3, strict_reference=True)[1]
    assert len(strict.rearrange_micro_batches(batch, 3)[1]) == 2
    assert len(strict.rearrange_micro_batches(batch, 3, strict_reference=False)[1]) == 3
    assert strict_roll.SequencePackingPacker().strict_reference and not strict_roll.SequencePackingPacker(strict_reference=False).strict_reference
    grouper = strict_prefix_grouper.PrefixGrouper([[2, 1, 1]])
    assert grouper.strict_reference and isinstance(grouper, prefix_grouper.PrefixGrouper)
    masks = torch.ones(1, 2, dtype=torch.bool), torch.ones(2, 1, dtype=torch.bool), [2]
    assert strict_prefix_grouper.PrefixGrouper.from_ungrouped_masks(*masks).strict_reference
