"""A plan from Python is the plan of the library: micro-batches keep the cap, every sample occurs once, losses are exact."""

import json
import os
import subprocess

import numpy as np
import pytest

import evenkeel
from evenkeel import Config, PackedLayout, plan

MODES = [{"mode": "packed"}, {"mode": "padded"}, {"mode": "fixed", "size": 3}]
PROGRAM = os.environ.get("EVENKEEL_PROGRAM")  # the program of the same build


def made_up_lengths(seed, n=200, longest=500):
    return np.random.default_rng(seed).integers(1, longest, size=n)


def micro_batches_of(step):
    return [m for rank in step.ranks for m in rank.micro_batches]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("mesh", [{"dp": 1}, {"dp": 4}, {"dp": 3, "cp": 2, "tp": 2}])
def test_every_sample_occurs_once_and_no_micro_batch_exceeds_the_cap(mode, mesh):
    lengths = made_up_lengths(1)
    step = plan(lengths, mesh=mesh, micro_batch={"max_tokens": 1024, **mode})
    assert len(step) == mesh["dp"] and step.num_samples == 200 and step.num_tokens == lengths.sum()
    assert sorted(np.concatenate([m.samples for m in micro_batches_of(step)])) == list(range(200))
    for m in micro_batches_of(step):
        assert m.tokens == lengths[m.samples].sum() and m.tokens <= m.aligned_tokens <= 1024
        layout = m.layout()
        assert m.empty or layout.num_rows == m.aligned_tokens
    assert all(len(rank) == step.num_micro_batches for rank in step)


def test_a_layout_is_that_of_the_samples():
    step = plan([5, 3, 4, 2], mesh={"dp": 2, "cp": 2}, micro_batch={"max_tokens": 16})
    m = step[0][0]
    assert m.layout() == PackedLayout([[5, 3, 4, 2][i] for i in m.samples], cp=2)
    assert m.layout().alignment == step.alignment == 4 and step.cp == evenkeel.CpGroup(2)


def test_an_empty_micro_batch_is_one_filler_sequence():
    step = plan([5], mesh={"dp": 2}, micro_batch={"max_tokens": 16}, pack={"align": 8})
    empty = next(m for m in micro_batches_of(step) if m.empty)
    assert len(empty) == 0 and empty.samples.tolist() == [] and empty.token_weights.tolist() == []
    assert empty.layout().lengths.tolist() == [8]


@pytest.mark.parametrize("aggregation", ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "prompt-mean"])
@pytest.mark.parametrize("mini_batches", [1, 2])
def test_weights_make_the_loss_of_the_whole_mini_batch(aggregation, mini_batches):
    random = np.random.default_rng(3)
    prompts, responses = random.integers(1, 20, size=24), random.integers(1, 60, size=24)
    groups = [f"prompt {i // 4}" for i in range(24)]
    losses = [random.random(n) for n in responses]
    step = plan(prompts=prompts, responses=responses, groups=groups, mesh={"dp": 3}, micro_batch={"max_tokens": 128},
                batch={"mini_batches": mini_batches}, loss={"aggregation": aggregation})
    for mini_batch in range(mini_batches):
        mine = [m for m in micro_batches_of(step) if m.mini_batch == mini_batch]
        members = [i for m in mine for i in m.samples]
        got = sum(w * losses[i].sum() for m in mine for i, w in zip(m.samples, m.token_weights))
        sums = {i: losses[i].sum() for i in members}
        means = {i: losses[i].mean() for i in members}
        of_prompts = {}
        for i in members:
            of_prompts.setdefault(groups[i], []).append(means[i])
        expected = {
            "token-mean": sum(sums.values()) / sum(responses[i] for i in members),
            "seq-mean-token-mean": np.mean(list(means.values())),
            "seq-mean-token-sum": np.mean(list(sums.values())),
            "prompt-mean": np.mean([np.mean(of) for of in of_prompts.values()]),
        }[aggregation]
        assert got == pytest.approx(expected, rel=1e-12)
        # The scale makes the result equal for a trainer that sums over micro-batches and averages over DP ranks.
        assert all(m.scale == 3 for m in mine)


@pytest.mark.parametrize("aggregation", ["token-mean", "seq-mean-token-mean", "prompt-mean"])
def test_foreign_micro_batches_get_the_weights_of_planned_ones(aggregation):
    random = np.random.default_rng(4)
    prompts, responses = random.integers(1, 20, size=24), random.integers(0, 60, size=24)
    samples = dict(prompts=prompts, responses=responses, groups=[i // 3 for i in range(24)])
    settings = dict(mesh={"dp": 3}, micro_batch={"max_tokens": 128}, loss={"aggregation": aggregation})
    step = plan(**samples, **settings)
    mine = [[m.samples for m in rank.micro_batches] for rank in step]
    losses = evenkeel.planning.losses_of(mine, **samples, config=settings)
    for rank, of_rank in zip(step, losses):
        for m, loss in zip(rank.micro_batches, of_rank):
            assert loss.token_weights.tolist() == m.token_weights.tolist()
            assert (loss.scale, loss.mean_weight) == (m.scale, m.mean_weight)


@pytest.mark.parametrize(
    "micro_batches, what",
    [
        ([[[0], [1]], [[2]]], "DP rank 1 has 1 micro-batch, but DP rank 0 has 2"),
        ([[[0]], [[1]]], "sample 2 is not in any micro-batch"),
        ([[[0, 1]], [[1, 2]]], "sample 1 appears twice"),
        ([[[0, 1]], [[2, 3]]], "contain sample 3, but the number of samples is 3"),
        ([[[0, 1]], [[2, -1]]], "sample -1"),
        ([[[0, 1]], [[2.5]]], r"micro_batches\[1\]\[0\]\[0\]: is 2.5"),
        ([], "sample 0 is not in any micro-batch"),
    ],
)
def test_micro_batches_that_are_not_a_partition_are_refused(micro_batches, what):
    with pytest.raises(evenkeel.InputError, match=what):
        evenkeel.planning.losses_of(micro_batches, [5, 6, 7])


def test_loss_tokens_determine_token_weights():
    step = plan([4, 4], loss_tokens=[1, 3], mesh={"dp": 1}, micro_batch={"max_tokens": 64})
    m = step[0][0]
    assert dict(zip(m.samples.tolist(), m.token_weights.tolist())) == {0: 0.25, 1: 0.25}


def test_lengths_and_prompts_are_as_good_as_prompts_and_responses():
    settings = dict(mesh={"dp": 2}, micro_batch={"max_tokens": 32})
    assert plan([7, 9], prompts=[3, 4], **settings) == plan(prompts=[3, 4], responses=[4, 5], **settings)


def test_equal_arguments_make_equal_plans():
    lengths = made_up_lengths(5)
    one = plan(lengths, mesh={"dp": 4}, micro_batch={"max_tokens": 2048})
    other = plan(lengths.tolist(), config=Config(mesh={"dp": 4}, micro_batch={"max_tokens": 2048}))
    assert one == other and one.hash == other.hash and hash(one) == hash(other)
    assert one != plan(lengths[::-1], mesh={"dp": 4}, micro_batch={"max_tokens": 2048})


def test_it_is_balanced_and_reports_the_balance():
    step = plan(made_up_lengths(6, n=512), mesh={"dp": 8}, micro_batch={"max_tokens": 4096})
    quality = step.quality
    assert 1 <= quality["dp_max_over_mean"] < 1.001 < quality["dp_max_over_mean_before"]
    assert 0 <= quality["waiting_once"] <= quality["waiting_every_micro_batch"] < 0.1
    assert step.lower_bound <= step.num_micro_batches
    owners = step.dp_rank_of_sample
    assert all((owners[rank.samples] == rank.dp_rank).all() for rank in step)


def test_profiles_and_ranks_are_the_configurations():
    config = Config({"mesh": {"tp": 2}, "profiles": {"forward": {"micro_batch": {"max_tokens": 64}}}})
    assert len(plan([5] * 8, config=config, ranks=8)) == 4
    assert plan([60] * 4, config=config, ranks=2, profile="forward").num_micro_batches == 4


def test_samples_of_one_prompt_share_it():
    step = plan(prompts=[10] * 4, responses=[2, 3, 4, 5], groups=["a"] * 4, prefix={"share": True}, mesh={"dp": 1},
                micro_batch={"max_tokens": 64})
    m = step[0][0]
    assert m.tokens == 10 + 2 + 3 + 4 + 5
    assert sorted(m.layout().lengths.tolist()) == [2, 3, 4, 5, 10]


def test_trees_are_found_in_tokens():
    tokens = [[1, 2, 3, 4], np.array([1, 2, 3, 5, 6]), [1, 2, 7]]
    step = plan([4, 5, 3], tokens=tokens, groups=[0, 0, 0], prefix={"share": "tree"}, mesh={"dp": 1},
                micro_batch={"max_tokens": 64})
    assert step[0][0].tokens == 7
    assert step[0][0].layout().lengths.tolist() == [2, 1, 1, 2, 1]  # the example in the header


def made_up_paths(random):
    """Returns prompts, paths and uids of agents: each path keeps the prompt and a part of an earlier path of its uid."""
    prompts, paths, uids = [], [], []
    for uid in range(random.integers(1, 7)):
        prompt = random.integers(0, 100, random.integers(0, 5)).tolist()
        own = []
        for _ in range(random.integers(1, 8)):
            earlier = own[random.integers(len(own))] if own else prompt
            kept = earlier[:random.integers(len(prompt), len(earlier) + 1)]
            own.append([*kept, *random.integers(0, 100, random.integers(1, 20)).tolist()])
        prompts += [len(prompt)] * len(own)
        paths += own
        uids += [uid] * len(own)
    return prompts, paths, uids


@pytest.mark.parametrize("meet", ["step", "micro-batch"])
@pytest.mark.parametrize("share", [True, "tree"])
@pytest.mark.parametrize("dp", [1, 2, 8, 16])
def test_a_tree_and_a_layout_are_those_of_the_planned_samples(meet, share, dp):
    random = np.random.default_rng(dp)
    for _ in range(20):
        prompts, paths, uids = made_up_paths(random)
        lengths = [len(path) for path in paths]
        step = plan(lengths, prompts=prompts, tokens=paths, groups=uids, prefix={"share": share}, mesh={"dp": dp},
                    micro_batch={"max_tokens": int(max(lengths) * random.integers(1, 4))}, balance={"meet": meet})
        for m in micro_batches_of(step):
            tree = m.tree()
            assert m.empty or m.layout().lengths.sum() == m.tokens == tree.tree.num_rows
            assert [tree.tree.sample_length(i) for i in range(len(m))] == [lengths[i] for i in m.samples]
        assert sorted(np.concatenate([m.samples for m in micro_batches_of(step)])) == list(range(len(paths)))


def test_paths_on_two_ranks_repeat_their_shared_tokens():
    step = plan([3, 4], prompts=[2, 2], tokens=[[1, 2, 3], [1, 2, 4, 5]], groups=[0, 0], prefix={"share": "tree"},
                mesh={"dp": 2}, micro_batch={"max_tokens": 64}, balance={"meet": "step"})
    assert sorted(rank[0].tokens for rank in step) == [3, 4]
    assert sorted(tuple(rank[0].layout().lengths) for rank in step) == [(2, 1), (2, 2)]


@pytest.mark.skipif(not PROGRAM, reason="EVENKEEL_PROGRAM names no program to compare with")
def test_the_program_plans_the_same(tmp_path):
    lengths = made_up_lengths(8, n=64)
    (tmp_path / "lengths.csv").write_text("length\n" + "".join(f"{n}\n" for n in lengths), encoding="utf-8")
    settings = ["--set", "mesh.dp=3", "--set", "micro_batch.max_tokens=2048", "--set", "balance.cost=flops-7b"]
    subprocess.run([PROGRAM, "plan", "--lengths", tmp_path / "lengths.csv", *settings, "--json",
                    tmp_path / "plan.json"], check=True, capture_output=True)
    printed = json.loads((tmp_path / "plan.json").read_text(encoding="utf-8"))
    step = plan(lengths, mesh={"dp": 3}, micro_batch={"max_tokens": 2048}, balance={"cost": "flops-7b"})
    got = [[m.samples.tolist() for m in rank.micro_batches] for rank in step]
    assert got == [[m["samples"] for m in rank["micro_batches"]] for rank in printed["ranks"]]
    assert step.quality["step_max_over_mean"] == pytest.approx(printed["balance"]["step_max_over_mean"], rel=1e-12)


@pytest.mark.parametrize(
    "call, error, what",
    [
        (lambda: plan([9], mesh={"dp": 1}, micro_batch={"max_tokens": 8}), evenkeel.LimitError, "9"),
        (lambda: plan([9]), evenkeel.ConfigError, "mesh.dp: is auto"),
        (lambda: plan([9], ranks=3, mesh={"tp": 2}), evenkeel.MeshError, "3"),
        (lambda: plan([-1], ranks=1), evenkeel.InputError, "-1"),
        (lambda: plan([1, 2], groups=[1], ranks=1), evenkeel.InputError, "groups: has 1 entry for 2 samples"),
        (lambda: plan([1, 2], groups=[], ranks=1), evenkeel.InputError, "groups: has 0 entries for 2 samples"),
        (lambda: plan([1, 2], loss_tokens=[1], ranks=1), evenkeel.InputError, "loss_tokens: has 1 entry for 2"),
        (lambda: plan([1, 2], loss_tokens=[1, 3], ranks=1), evenkeel.InputError, r"loss_tokens\[1\]"),
        (lambda: plan([1, 2], prompts=[1], ranks=1), evenkeel.InputError, "prompts: has 1 entry for 2 samples"),
        (lambda: plan([1, 2], prompts=[1, 3], ranks=1), evenkeel.InputError, r"prompts\[1\]: is 3"),
        (lambda: plan(prompts=[1], responses=[1, 2], ranks=1), evenkeel.InputError, "1"),
        (lambda: plan([2], prefix={"share": "tree"}, ranks=1), evenkeel.InputError, "tokens: are missing"),
        (lambda: plan([2], tokens=[[1]], prefix={"share": "tree"}, ranks=1), evenkeel.InputError, r"tokens\[0\]"),
        (lambda: plan([2], profile="none", ranks=1), evenkeel.ConfigError, "none"),
        (lambda: plan([2], ranks=1, prefix={"share": True}, micro_batch={"mode": "padded"}), evenkeel.ConfigError, "prefix"),
    ],
)
def test_bad_input_is_an_error_that_names_the_problem(call, error, what):
    with pytest.raises(error, match=what):
        call()


@pytest.mark.parametrize("arguments", [{}, {"prompts": [1]}, {"lengths": [1], "prompts": [1], "responses": [0]}])
def test_lengths_must_be_specified_in_exactly_one_way(arguments):
    with pytest.raises(TypeError, match="are described by lengths"):
        plan(**arguments, ranks=1)


def test_a_plan_without_samples_is_valid():
    step = plan([], mesh={"dp": 2})
    assert step.num_samples == 0 and all(m.empty for m in micro_batches_of(step))


def test_parts_outlive_their_plan():
    m = plan([5, 3], mesh={"dp": 1}, micro_batch={"max_tokens": 64})[0][0]
    assert sorted(m.samples.tolist()) == [0, 1]


def test_a_place_that_is_not_there_is_an_index_error():
    step = plan([5, 3], mesh={"dp": 2})
    for wrong in (2, -3):
        with pytest.raises(IndexError, match="DP rank"):
            step[wrong]
        with pytest.raises(IndexError, match="micro-batch"):
            step[0][wrong]


@pytest.mark.parametrize("strategy", ["hierarchical", "grid"])
def test_a_micro_batch_has_its_own_group_size_if_cp_is_flexible(strategy):
    lengths = [30, 8, 8, 8, 8]
    step = plan(lengths, mesh={"cp": "flexible", "dp": 4}, micro_batch={"max_tokens_per_rank": 8},
                         balance={"strategy": strategy})
    contexts = {m.context for rank in step.ranks for m in rank.micro_batches if not m.empty}
    assert (0, 4) in contexts
    assert {size for _, size in contexts} <= {1, 2, 4}
    for number, rank in enumerate(step.ranks):
        assert all(first <= number < first + size for first, size in (m.context for m in rank.micro_batches))
