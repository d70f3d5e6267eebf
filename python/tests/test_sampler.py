"""BalancedBatchSampler: every sample of an epoch occurs once, on one rank, under the cap, in steps that all ranks agree on."""

import subprocess
import sys

import numpy as np
import pytest

import evenkeel
from evenkeel.collate import MicroBatches
from evenkeel.sampler import BalancedBatchSampler

LENGTHS = np.random.RandomState(1).lognormal(5.2, 1, size=203).astype(int).clip(1, 1000).tolist()
SETTINGS = {"max_tokens": 1024, "global_batch": 32, "ranks": 4}


def sampler(rank=0, lengths=LENGTHS, **changes):
    return BalancedBatchSampler(lengths, **{**SETTINGS, "rank": rank, **changes})


def samplers(**changes):
    return [sampler(rank, **changes) for rank in range(changes.get("ranks", SETTINGS["ranks"]))]


def sorted_samples(micro_batches):
    return sorted(index for micro_batch in micro_batches for index in micro_batch)


@pytest.mark.parametrize("padded", [False, True])
def test_each_sample_occurs_once_and_no_micro_batch_exceeds_the_cap(padded):
    found = [list(one) for one in samplers(padded=padded)]
    assert sorted_samples(sum(found, [])) == list(range(len(LENGTHS)))
    for micro_batch in sum(found, []):
        lengths = [LENGTHS[index] for index in micro_batch]
        assert (len(lengths) * max(lengths, default=0) if padded else sum(lengths)) <= 1024


def test_all_ranks_have_as_many_micro_batches_in_each_step_and_train_the_same_samples_together():
    ranks = samplers()
    steps = [list(one.steps) for one in samplers()]
    assert len(ranks[0].steps) == 7 and {len(found) for found in steps} == {7}
    order = np.random.RandomState([0, 0, 0]).permutation(len(LENGTHS))
    for step, of_ranks in enumerate(zip(*steps)):
        assert {len(micro_batches) for micro_batches in of_ranks} == {ranks[0].counts[step]}
        assert sorted_samples(sum(of_ranks, [])) == sorted(order[step * 32 : step * 32 + 32])
    assert len(set(ranks[0].counts)) > 1, "counts that are all equal would not test anything"


def test_the_plan_is_that_of_evenkeel():
    one = sampler(rank=2, balance={"cost": "flops-7b"})
    indices = one.indices(3)
    plan = evenkeel.plan(np.array(LENGTHS)[indices], mesh={"dp": 4}, micro_batch={"max_tokens": 1024}, balance={"cost": "flops-7b"}, step=3)
    assert one.plan(3).hash == plan.hash
    assert list(one.steps)[3] == [indices[m.samples].tolist() for m in plan.ranks[2].micro_batches]


def test_the_length_is_exact():
    one = sampler()
    for epoch in range(3):
        one.set_epoch(epoch)
        assert len(one) == sum(one.counts)
        assert len(list(one)) == sum(sampler_at(epoch).counts)


def sampler_at(epoch, **changes):
    made = sampler(**changes)
    made.set_epoch(epoch)
    return made


def test_epochs_differ_follow_each_other_and_are_drawn_from_the_seed():
    one = sampler()
    epochs = [list(one), list(one)]
    assert one.epoch == 2
    assert epochs[0] != epochs[1]
    assert epochs[1] == list(sampler_at(1)) != list(sampler_at(1, seed=1))


def test_without_shuffling_steps_are_in_the_order_of_the_data_set():
    one = sampler(shuffle=False)
    assert one.indices(0).tolist() == list(range(32)) and one.indices(6).tolist() == list(range(192, 203))


def test_the_last_step_is_dropped_only_on_request():
    assert (sampler().num_steps, sampler(drop_last=True).num_steps) == (7, 6)
    assert len(sorted_samples(sum((list(one) for one in samplers(drop_last=True)), []))) == 192


@pytest.mark.parametrize("taken", [0, 1, 7, 8, 15])
def test_a_state_continues_after_the_last_delivered_list(taken):
    whole = list(sampler_at(1)) + list(sampler_at(2))
    before, after = sampler_at(1), sampler()
    lists = iter(before)
    head = [next(lists) for _ in range(taken)]
    after.load_state_dict(before.state_dict())
    after.set_epoch(1)  # trainers also call it for the epoch in which they resume
    assert head + list(after) + list(after) == whole


def test_a_state_of_whole_steps_is_read_with_another_number_of_ranks():
    before = sampler()
    steps = iter(before.steps)
    for _ in range(3):
        next(steps)
    rest = [BalancedBatchSampler(LENGTHS, 2048, global_batch=32, ranks=2, rank=rank) for rank in range(2)]
    for one in rest:
        one.load_state_dict(before.state_dict())
    assert sorted_samples(sum((list(one) for one in rest), [])) == sorted(np.concatenate([before.indices(i) for i in range(3, 7)]))


def test_a_state_inside_a_step_needs_the_same_plan():
    before = sampler()
    assert before.counts[0] > 1
    next(iter(before))
    sampler(rank=3).load_state_dict(before.state_dict())
    with pytest.raises(evenkeel.InputError, match=r"state_dict\['plan'\]"):
        sampler(max_tokens=2048).load_state_dict(before.state_dict())


def test_a_state_can_be_made_for_the_last_finished_step():
    one = sampler()
    ahead = iter(one.steps)
    for _ in range(4):
        next(ahead)
    again = sampler()
    again.load_state_dict(one.state_dict(step=2))
    assert list(again.steps) == list(sampler().steps)[2:]


def test_an_iteration_that_was_left_does_not_shorten_the_next_one():
    one = sampler()
    for _ in range(3):
        next(iter(one))
        next(iter(one.steps))
    assert list(one) == list(sampler())


def test_a_loaded_position_holds_for_one_iteration():
    before, after = sampler(), sampler()
    lists = iter(before)
    head = [next(lists) for _ in range(3)]
    after.load_state_dict(before.state_dict())
    assert after.state_dict() == before.state_dict()
    assert next(iter(after)) == list(sampler())[3]
    assert list(after) == head + list(sampler())[3:]


def test_iterations_at_the_same_time_do_not_disturb_each_other():
    one = sampler()
    pairs = list(zip(one, one))
    assert [pair[0] for pair in pairs] == [pair[1] for pair in pairs] == list(sampler())


def test_another_epoch_does_not_change_an_iteration_that_has_begun():
    one = sampler()
    lists = iter(one)
    head = next(lists)
    one.set_epoch(5)
    assert [head, *lists] == list(sampler())


@pytest.mark.parametrize("change", [{"lengths": LENGTHS[:-1]}, {"global_batch": 16}, {"seed": 3}, {"shuffle": False}, {"drop_last": True}])
def test_a_state_of_other_data_or_another_order_is_refused(change):
    with pytest.raises(evenkeel.InputError, match=f"state_dict.*{next(iter(change))}.*[Ll]oad"):
        sampler(**change).load_state_dict(sampler().state_dict())


def test_micro_batches_of_all_ranks_in_turn_are_distributed_by_accelerate():
    together = list(sampler("all"))
    assert len(together) == len(sampler("all"))
    for rank in range(4):
        assert together[rank::4] == list(sampler(rank))


def test_a_rank_with_too_few_samples_gets_empty_lists_or_an_error():
    settings = {"max_tokens": 8, "global_batch": 3, "ranks": 2, "shuffle": False}
    assert [list(BalancedBatchSampler([8, 8, 8], rank=rank, **settings)) for rank in range(2)] == [[[1], [0]], [[2], []]]
    with pytest.raises(evenkeel.InputError, match="epoch 0, step 0, rank 1: micro-batch 1 has no samples; the rank has 2 micro-batches, counted"):
        list(BalancedBatchSampler([8, 8, 8], rank=0, empty="error", **settings))


@pytest.mark.parametrize(
    "change, error, text",
    [
        ({"lengths": [5, 1025]}, evenkeel.LimitError, r"lengths\[1\]: is 1025, above max_tokens, 1024. Raise max_tokens to at least 1025"),
        ({"lengths": [5, 0]}, evenkeel.InputError, r"lengths\[1\]: is 0, but a sample has at least 1 token. Leave"),
        ({"lengths": [[5]]}, evenkeel.InputError, "lengths: has the shape"),
        ({"lengths": [5.5]}, evenkeel.InputError, "lengths: .*float64"),
        ({"rank": 4}, evenkeel.InputError, "rank: is 4, but there are 4 ranks"),
        ({"global_batch": 0}, evenkeel.InputError, "global_batch: is 0. Pass a whole number of at least 1"),
        ({"global_batch": 300, "drop_last": True}, evenkeel.InputError, "global_batch: is 300, but the data set has only 203 samples, so an epoch would have no steps"),
        ({"pad_to_multiple_of": 8}, evenkeel.InputError, "pad_to_multiple_of: is 8, but sequences are packed"),
        ({"empty": "drop"}, evenkeel.InputError, "empty: is 'drop'"),
        ({"padded": True, "pad_to_multiple_of": 2048}, evenkeel.ConfigError, "micro_batch.max_tokens"),
        ({"balance": {"cots": "tokens"}}, evenkeel.ConfigError, "balance.cots: unknown key"),
    ],
)
def test_impossible_settings_are_refused_before_the_first_step(change, error, text):
    with pytest.raises(error, match=text):
        sampler(**{"rank": 0, **change})


def test_torch_is_not_imported():
    program = "import sys; from evenkeel.sampler import BalancedBatchSampler; import evenkeel.collate; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_of_torch_takes_micro_batches_and_whole_steps(workers):
    data = pytest.importorskip("torch.utils.data")
    samples = [{"input_ids": [index] * length} for index, length in enumerate(LENGTHS)]
    loader = data.DataLoader(samples, batch_sampler=sampler(1), collate_fn=first_tokens, num_workers=workers)
    assert list(loader) == list(sampler(1))
    of_steps = data.DataLoader(MicroBatches(samples), batch_sampler=sampler(1).steps, collate_fn=list_of_first_tokens, num_workers=workers)
    assert len(of_steps) == 7 and list(of_steps) == list(sampler(1).steps)


def first_tokens(samples):
    return [sample["input_ids"][0] for sample in samples]


def list_of_first_tokens(micro_batches):
    return [first_tokens(samples) for samples in micro_batches]


@pytest.mark.parametrize(("key", "sections"), [
    ("micro_batch.max_tokens", {"micro_batch": {"max_tokens": 2048}}),
    ("mesh.dp", {"mesh": {"dp": 8}}),
    ("micro_batch.mode", {"micro_batch": {"mode": "padded", "length_round": 1}}),
    ("micro_batch.mode", {"micro_batch": {"mode": "packed"}, "padded": True}),
    ("micro_batch.length_round", {"micro_batch": {"length_round": 8}, "padded": True}),
    ("micro_batch.equal_counts", {"micro_batch": {"equal_counts": "auto"}, "balance": {"meet": "step"}}),
    ("batch.mini_batches", {"batch": {"mini_batches": 2}}),
    ("mesh.cp", {"mesh": {"cp": "flexible"}, "balance": {"meet": "step"}, "micro_batch": {"max_tokens_per_rank": 1024}}),
    ("micro_batch.max_tokens", {"config": {"micro_batch": {"max_tokens": 2048}}}),
])
def test_settings_that_contradict_the_sampler_are_refused_by_name(key, sections):
    with pytest.raises((evenkeel.errors.InputError, evenkeel.errors.ConfigError), match=key.replace(".", r"\.")):
        sampler(**sections)


def test_a_configuration_may_have_the_values_of_the_arguments():
    config = evenkeel.Config(mesh={"dp": 4}, micro_batch={"max_tokens": 1024}, balance={"cost": "flops-7b"})
    assert list(sampler(config=config)) == list(sampler(balance={"cost": "flops-7b"}))
