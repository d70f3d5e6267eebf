"""Tests the storage manager, a rank's share and the sampler in a TransferQueue whose values are in the program's store."""

import itertools

import numpy as np
import pytest
import ray
import torch
import transfer_queue
from omegaconf import OmegaConf
from tensordict import NonTensorStack, TensorDict
from transfer_queue.metadata import BatchMeta
from transfer_queue.storage.managers.simple_storage_manager import AsyncSimpleStorageManager

import evenkeel
import evenkeel.transfer_queue
from evenkeel.transfer_queue import BalancedSampler, Share, get_share
from stores import Store

PARTITION = "train"


def config(**section):
    made = OmegaConf.create({"controller": {"polling_mode": True}, "backend": {"storage_backend": "Evenkeel", "Evenkeel": section}})
    OmegaConf.set_struct(made, True)  # Hydra's configurations, from which verl takes it, are structs, too.
    return made


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    with Store("--dir", str(folder / "values"), "--checkpoints", str(folder)) as store:
        store.folder = folder
        yield store


@pytest.fixture(scope="module", autouse=True)
def queue(store):
    ray.init(num_cpus=2, include_dashboard=False)
    transfer_queue.init(config(url=store.url))
    yield
    transfer_queue.close()
    ray.shutdown()


@pytest.fixture(autouse=True)
def clear_after_test():
    yield
    for partition, keys in transfer_queue.kv_list().items():
        if keys:
            transfer_queue.kv_clear(list(keys), partition)


def put(fields, tags=None):
    first = next(iter(fields.values()))
    count = first.size(0) if isinstance(first, torch.Tensor) else len(first)
    keys = [f"k{i}" for i in range(count)]
    transfer_queue.kv_batch_put(keys, PARTITION, TensorDict(fields, batch_size=count), tags)
    return keys


def metadata_of(keys):
    return transfer_queue.get_client().kv_retrieve_meta(keys=keys, partition_id=PARTITION, create=False)


def same_value(one, other):
    """Returns whether two values have the same type, layout, dtype, shape and content."""
    if isinstance(other, torch.Tensor) and other.is_nested:
        return (one.is_nested and one.layout == other.layout and one._ragged_idx == other._ragged_idx if other.layout == torch.jagged
                else one.is_nested and one.layout == other.layout) and all(map(same_value, one.unbind(), other.unbind()))
    if isinstance(other, torch.Tensor):
        return isinstance(one, torch.Tensor) and not one.is_nested and one.dtype == other.dtype and torch.equal(
            one.contiguous().reshape(-1).view(torch.uint8), other.contiguous().reshape(-1).view(torch.uint8)) and one.shape == other.shape
    return type(one) is type(other) and one == other


def rows(*shapes, dtype=torch.float32):
    return [torch.arange(int(np.prod(shape))).reshape(shape).to(dtype) for shape in shapes]


COLUMNS = {
    "numbers": torch.tensor([1.5, 2.5, 3.5]),
    "dense": torch.arange(12).reshape(3, 4),
    "matrices": torch.arange(24.0).reshape(3, 4, 2),
    "no elements": torch.zeros(3, 0),
    "bfloat16": torch.arange(6).reshape(3, 2).to(torch.bfloat16),
    "float8": torch.arange(6).reshape(3, 2).to(torch.float8_e4m3fn),
    "complex128": torch.arange(6).reshape(3, 2).to(torch.complex128),
    "ten axes": torch.arange(6).reshape(3, 1, 1, 1, 1, 1, 1, 1, 1, 2),
    "transposed": torch.arange(12).reshape(4, 3).T,
    "jagged": torch.nested.as_nested_tensor(rows((2,), (0,), (3,)), layout=torch.jagged),
    "jagged matrices": torch.nested.as_nested_tensor(rows((2, 4), (1, 4), (3, 4), dtype=torch.int16), layout=torch.jagged),
    "jagged second axis": torch.nested.as_nested_tensor(rows((2, 4), (2, 1), (2, 3)), layout=torch.jagged),
    "strided": torch.nested.as_nested_tensor(rows((2, 4), (1, 3), (3, 5)), layout=torch.strided),
    "texts": NonTensorStack("a", "", "\N{SNOWMAN}"),
    "objects": NonTensorStack({"a": [1, None]}, 2**70, (1, "b")),
    "nothing": NonTensorStack(None, None, None),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_field_is_returned_as_by_simple_storage(name):
    column = COLUMNS[name]
    keys = put({"field": column})
    values = column.tolist() if isinstance(column, NonTensorStack) else list(column.unbind())
    if name == "objects":
        values[2] = [1, "b"]  # TransferQueue's serializer converts tuples to lists
    found = transfer_queue.kv_batch_get(keys, PARTITION)["field"]
    theirs = TensorDict({"field": AsyncSimpleStorageManager._pack_field_values(values)}, batch_size=3)["field"]
    assert same_value(found, theirs), (found, theirs)


def test_the_comparison_notices_one_changed_bit_another_layout_and_another_type():
    jagged = COLUMNS["jagged"]
    changed = torch.nested.as_nested_tensor(rows((2,), (0,), (2,)), layout=torch.jagged)
    assert not same_value(changed, jagged)
    assert not same_value(torch.nested.as_nested_tensor(list(jagged.unbind()), layout=torch.strided), jagged)
    bits = COLUMNS["numbers"].clone()
    bits.view(torch.uint8)[3] ^= 1
    assert not same_value(bits, COLUMNS["numbers"]) and not same_value(["a", 1], ["a", True][:1] + ["1"])


def test_a_field_may_have_other_dtypes_and_types_in_samples_that_were_put_separately():
    keys = put({"field": torch.arange(2).reshape(2, 1)})
    transfer_queue.kv_batch_put(["k2"], PARTITION, TensorDict({"field": torch.ones(1, 2)}, batch_size=1))
    transfer_queue.kv_batch_put(["k3"], PARTITION, TensorDict({"field": NonTensorStack("text")}, batch_size=1))
    found = transfer_queue.kv_batch_get([*keys, "k2", "k3"], PARTITION)["field"]
    assert found[3] == "text" and torch.equal(found[1], torch.tensor([1])) and torch.equal(found[2], torch.ones(2))


def test_a_value_that_was_cleared_is_reported_as_transfer_queue_does():
    keys = put({"field": torch.arange(2)})
    metadata = metadata_of(keys)
    transfer_queue.kv_clear(keys[:1], PARTITION)
    with pytest.raises(transfer_queue.StorageKeyNotFoundError, match="field"):
        transfer_queue.get_client().get_data(metadata)


def test_a_put_replaces_values_and_thirty_two_fields_are_returned_together():
    fields = {f"f{i}": torch.full((4, i + 1), i) for i in range(32)}
    keys = put(fields)
    put({"f7": torch.zeros(4)})
    found = transfer_queue.kv_batch_get(keys, PARTITION)
    assert set(found.keys()) == set(fields) and torch.equal(found["f7"], torch.zeros(4))
    assert all(torch.equal(found[name].values().reshape(4, -1), rows) for name, rows in fields.items() if name != "f7")


def test_a_checkpoint_brings_values_back(store):
    keys = put({"field": COLUMNS["jagged"], "texts": COLUMNS["texts"]})
    transfer_queue.save_checkpoint(store.folder / "checkpoint")
    transfer_queue.kv_clear(keys, PARTITION)
    transfer_queue.load_checkpoint(store.folder / "checkpoint")
    found = transfer_queue.kv_batch_get(keys, PARTITION)
    assert same_value(found["field"], COLUMNS["jagged"]) and list(found["texts"]) == COLUMNS["texts"].tolist()


@pytest.mark.parametrize("section, why", [
    ({}, r"backend.Evenkeel.url: is missing"),
    ({"url": "http://127.0.0.1:1", "capacity": 5}, r"backend.Evenkeel.capacity: is not a known key; the keys are: url, token_file, ca, existing, patience"),
    ({"url": "http://127.0.0.1:1", "existing": "drop"}, r"backend.Evenkeel.existing: is 'drop'; it must be refuse, clear or keep"),
    ({"url": "http://127.0.0.1:1", "patience": "long"}, r"backend.Evenkeel.patience: is 'long'; it must be a number of seconds of at least 0"),
    ({"url": "http://127.0.0.1:1", "token_file": "/nowhere"}, r"backend.Evenkeel.token_file: .*nowhere"),
], ids=["missing", "unknown", "word", "patience", "token"])
def test_a_wrong_configuration_is_refused_by_the_name_of_its_key(section, why):
    with pytest.raises(evenkeel.ConfigError, match=why):
        evenkeel.transfer_queue._prepare(config(**section))


def test_values_of_an_earlier_run_are_refused_kept_or_cleared_as_configured(store):
    put({"field": torch.arange(2)})
    client = evenkeel.values.ValueClient(store.url)
    with pytest.raises(evenkeel.ConfigError, match="has 2 values of another job or an earlier run. Set backend.Evenkeel.existing"):
        evenkeel.transfer_queue._prepare(config(url=store.url))
    evenkeel.transfer_queue._prepare(OmegaConf.create(config(url=store.url, existing="keep"), flags={"allow_objects": True}))
    assert client.status()["values"] == 2
    evenkeel.transfer_queue._prepare(OmegaConf.create(config(url=store.url, existing="clear"), flags={"allow_objects": True}))
    assert client.status()["values"] == 0


def test_data_parser_is_refused_with_the_reason():
    with pytest.raises(NotImplementedError, match="store cannot run Python code"):
        transfer_queue.kv_batch_put(["k0"], PARTITION, TensorDict({"field": torch.zeros(1)}, batch_size=1), data_parser=dict)


def test_a_value_for_all_samples_is_refused():
    with pytest.raises(evenkeel.InputError, match="'field': is one str for all samples"):
        evenkeel.transfer_queue._storable("field", "ab")


@ray.remote
def sum_of_field(keys):
    transfer_queue.init()
    return int(transfer_queue.kv_batch_get(keys, PARTITION)["field"].sum())


def test_a_process_that_joins_needs_no_import():
    assert ray.get(sum_of_field.remote(put({"field": torch.arange(4)}))) == 6


TP, PP, CP, LAYERS, TOP = 2, 2, 2, 6, 2
LENGTHS = [16, 7, 1, 30]


def routed_samples():
    return {"input_ids": torch.nested.as_nested_tensor(rows(*[(length,) for length in LENGTHS], dtype=torch.int64), layout=torch.jagged),
            "routes": torch.nested.as_nested_tensor(rows(*[(length, LAYERS, TOP) for length in LENGTHS], dtype=torch.uint8), layout=torch.jagged),
            "reward": torch.arange(4.0)}


def tokens_of(cp_rank, length):
    """Returns the tokens of a rank in the zigzag cut: of 2 * CP equal chunks, a rank has one from each end. Chunk lengths are multiples of TP.
    """
    chunk = -(-length // (2 * CP * TP)) * TP
    return [t for part in (cp_rank, 2 * CP - 1 - cp_rank) for t in range(part * chunk, (part + 1) * chunk) if t < length]


@pytest.mark.parametrize("tp_rank, pp_rank, cp_rank", itertools.product(range(TP), range(PP), range(CP)))
def test_a_rank_receives_the_bytes_of_its_share_and_no_others(monkeypatch, tp_rank, pp_rank, cp_rank):
    fields = routed_samples()
    metadata = metadata_of(put(fields))
    layers = (pp_rank * LAYERS // PP, (pp_rank + 1) * LAYERS // PP)
    share = Share(token_fields=["input_ids", "routes"], layer_fields={"routes": 1}, cp=(cp_rank, CP), layers=layers, tp=TP)
    received = []
    read = evenkeel.values._read
    monkeypatch.setattr(evenkeel.values, "_read", lambda response, into: received.append(into.size) or read(response, into))
    found = get_share(metadata, share)
    mine = [tokens_of(cp_rank, length) for length in LENGTHS]
    for i, tokens in enumerate(mine):
        assert torch.equal(found["input_ids"][i], fields["input_ids"][i][tokens])
        assert torch.equal(found["routes"][i], fields["routes"][i][tokens][:, layers[0]:layers[1]])
    assert torch.equal(found["reward"], fields["reward"])
    tokens = sum(map(len, mine))
    assert sum(received[2:]) == tokens * 8 + tokens * LAYERS // PP * TOP + 4 * 4


def test_the_shares_of_all_ranks_are_all_rows_once():
    for length in range(40):
        ranges = [part for rank in range(4) for part in Share(cp=(rank, 4), tp=2).rows(length)]
        assert sorted(row for begin, end in ranges for row in range(begin, end)) == list(range(length))


def test_layers_need_a_stage():
    with pytest.raises(evenkeel.InputError, match="layers: is missing"):
        Share(layer_fields={"routes": 1}).slices(BatchMeta([0], [PARTITION]))


class Partition:
    """The attributes of a partition that samplers use."""

    partition_id = PARTITION

    def __init__(self, tags):
        self.tags = tags

    def get_custom_meta(self, indexes):
        return {index: self.tags[index] for index in indexes if index in self.tags}


def test_the_sampler_deals_out_whole_groups_evenly_and_each_sample_once():
    random = np.random.default_rng(1)
    tags = {i: {"uid": int(random.integers(0, 24)), "total_lengths": int(n)} for i, n in enumerate(random.lognormal(6, 1, 600))}
    by_group = {}
    for index, tag in tags.items():
        by_group.setdefault(tag["uid"], []).append(index)
    tags = {index: tags[index] for group in by_group.values() for index in group[:8]}
    partition, ready = Partition(tags), set(tags)
    sampler = BalancedSampler(4, group_size=8, group_tag="uid")
    seen = []
    for batch in range(3):
        work = []
        for rank in (2, 0, 1, 3):
            request = dict(task_name="train", dp_rank=rank, batch_index=batch, partition_id=PARTITION)
            samples, consumed = sampler(sorted(ready), 16, partition=partition, **request)
            assert samples == consumed and len(samples) == 16
            assert sampler.has_cached_result(PARTITION, "train", request) and sampler(sorted(ready), 16, partition=partition, **request)[0] == samples
            ready -= set(consumed)
            seen += samples
            for begin in (0, 8):
                assert len({tags[index]["uid"] for index in samples[begin : begin + 8]}) == 1
            work.append(sum(tags[index]["total_lengths"] for index in samples))
        assert max(work) < 1.2 * np.mean(work)
    assert len(seen) == len(set(seen)) == 192
    assert sampler(sorted(ready), 16, partition=partition, task_name="train", dp_rank=0, batch_index=3) == ([], [])


def test_ranks_that_are_ahead_get_no_sample_that_others_have_not_fetched_yet():
    partition = Partition({i: {"total_lengths": 1} for i in range(8)})
    sampler = BalancedSampler(2)
    request = dict(partition=partition, task_name="train")
    first = sampler(list(range(8)), 2, dp_rank=0, batch_index=0, **request)[0]
    ahead = sampler(sorted(set(range(8)) - set(first)), 2, dp_rank=0, batch_index=1, **request)[0]
    behind = sampler(sorted(set(range(8)) - set(first) - set(ahead)), 2, dp_rank=1, batch_index=0, **request)[0]
    assert len({*first, *ahead, *behind}) == 6


def test_a_sample_whose_tags_have_not_arrived_is_not_ready(monkeypatch):
    partition = Partition({0: {"total_lengths": 1}})
    sampler = BalancedSampler(1)
    request = dict(partition=partition, task_name="train", dp_rank=0)
    assert sampler([0, 1], 2, batch_index=0, **request) == ([], [])
    partition.tags[1] = {"total_lengths": 1}
    assert sampler([0, 1], 2, batch_index=0, **request) == ([0, 1], [0, 1])
    assert sampler([2], 1, batch_index=1, **request) == ([], [])
    monkeypatch.setattr(evenkeel.transfer_queue, "_TAG_SECONDS", 0)
    with pytest.raises(evenkeel.InputError, match="sample 2: has no tag 'total_lengths'; its tags are: none"):
        sampler([2], 1, batch_index=1, **request)


def test_an_index_that_was_cleared_and_used_again_is_dealt_out_again():
    partition = Partition({i: {"total_lengths": 1} for i in range(2)})
    sampler = BalancedSampler(2)
    request = dict(partition=partition, task_name="train")
    for batch in range(3):  # the controller reuses the indexes of samples that were trained and cleared
        dealt = [sampler([0, 1], 1, dp_rank=0, batch_index=batch, **request)[0]]
        dealt.append(sampler(sorted({0, 1} - set(dealt[0])), 1, dp_rank=1, batch_index=batch, **request)[0])
        assert sorted(dealt) == [[0], [1]]


@pytest.mark.parametrize("tags, request_, error, why", [
    ({0: {"uid": 1}, 1: {"total_lengths": 5}}, {}, evenkeel.InputError, "sample 0: has no tag 'total_lengths'; its tags are: uid"),
    ({0: {"total_lengths": 5}, 1: {"total_lengths": 99}}, {}, evenkeel.LimitError, "sample 1: has 99 tokens, but max_tokens is 64"),
    ({}, {"task_name": None}, evenkeel.ConfigError, "sampling_config.task_name: is missing"),
    ({}, {"dp_rank": 2}, evenkeel.ConfigError, "sampling_config.dp_rank: is 2; it must be an integer from 0 to 1"),
    ({}, {"dp_rank": 0.5}, evenkeel.ConfigError, "sampling_config.dp_rank: is 0.5; it must be an integer from 0 to 1"),
    ({0: {"total_lengths": 12.7}, 1: {"total_lengths": 5}}, {}, evenkeel.InputError, "sample 0: has the tag 'total_lengths' with the value 12.7"),
    ({0: {"total_lengths": -1}, 1: {"total_lengths": 5}}, {}, evenkeel.InputError, "sample 0: has the tag 'total_lengths' with the value -1"),
], ids=["no length", "too long", "no task", "no such rank", "fraction of a rank", "fraction of a token", "negative length"])
def test_the_sampler_refuses_what_it_cannot_balance(tags, request_, error, why):
    with pytest.raises(error, match=why):
        BalancedSampler(2, max_tokens=64)([0, 1], 1, partition=Partition(tags), **{"task_name": "t", "dp_rank": 0, "batch_index": 0, **request_})


def test_the_sampler_works_in_the_controller():
    controller = ray.get_actor("TransferQueueController", namespace="transfer_queue")
    ray.get(controller.register_sampler.remote(BalancedSampler(2)))
    put({"field": torch.arange(4)}, [{"total_lengths": length} for length in (7, 1, 5, 3)])
    client = transfer_queue.get_client()
    work = []
    for rank in range(2):
        metadata = client.get_meta(data_fields=["field"], batch_size=2, partition_id=PARTITION, task_name="train",
                                   sampling_config={"task_name": "train", "dp_rank": rank, "batch_index": 0, "partition_id": PARTITION})
        work.append(sum(tag["total_lengths"] for tag in metadata.custom_meta))
    assert work == [8, 8]
