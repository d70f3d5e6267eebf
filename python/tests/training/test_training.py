"""Training with Evenkeel equals plain training: compares both ways of examples/training on a few short samples."""

import functools
import itertools
import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "service"))

from jobs import processes

HERE = pathlib.Path(__file__).parent
EXAMPLES = HERE.parents[2] / "examples" / "training"
AGGREGATIONS = ("token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm",
                "prompt-mean", "mindspeed-rl")
LAYOUTS = {"cp 1": {}, "cp 2": {"cp": 2}, "share": {"share": True}, "tree, cp 2": {"share": "tree", "cp": 2}}
REDUCTIONS = list(itertools.product(("sum", "mean"), ("mean", "sum"), ("count", "skip")))

pytestmark = pytest.mark.skipif(not EXAMPLES.exists(), reason="the package is tested without the repository")


AHEAD_JOBS = [("mpi", 2), ("mpi", 4)]
AHEAD = {
    f"{share}, {layout}": {"share": share, "cp_layout": layout, "max_tokens": cap}
    for share, layout, cap in ((True, "zigzag", 800), ("tree", "zigzag", 160), ("tree", "contiguous", 800))
}
JOBS = [("mpi", 1), ("mpi", 2), ("mpi", 4), ("torch", 4)]


@functools.cache
def train_cases(over, ranks):
    """Returns the lines of all cases of this file, by kind and name. One job trains them all, since starting a job takes
    longer."""
    pytest.importorskip("torch")
    grpo = GRPO if ranks == 4 else {}
    long = LONG if (over, ranks) == ("mpi", 2) else {}
    sft = {**aggregations(over, ranks), **(MODES if ranks == 4 else {}), **long}
    ahead = AHEAD if (over, ranks) in AHEAD_JOBS else {}
    cases = {"sft": sft, "grpo": grpo, "branching": branching(over, ranks), "ahead": ahead}
    command = [sys.executable, str(HERE / "cases.py"), str(EXAMPLES), json.dumps(cases)]
    done = processes(command, ranks, over=over, timeout=500)
    (results,) = (json.loads(line) for process in done for line in process.stdout.splitlines() if line.startswith("{"))
    return results


def aggregations(over, ranks):
    """Returns cases of each aggregation over each layout. The trainer's own reductions and the loss mask change from one case
    to the next. Returns all cases if DP ranks consist of several CP ranks each, otherwise every third."""
    cases = {}
    for number, (aggregation, (layout, settings)) in enumerate(itertools.product(AGGREGATIONS, LAYOUTS.items())):
        micro_batches, dp_ranks, fully_masked = REDUCTIONS[number % len(REDUCTIONS)]
        if settings.get("cp", 1) <= ranks and ((over, ranks) == ("mpi", 4) or number % 3 == 0):
            cases[f"{aggregation}, {layout}"] = {
                **settings, "aggregation": aggregation, "micro_batches": micro_batches, "dp_ranks": dp_ranks,
                "fully_masked": fully_masked, "max_tokens": 96, "steps": 3,
            }
    return cases


def branching(over, ranks):
    """Returns cases of each aggregation: in packed trees over 1, 2 and 4 CP ranks, and depth first over 2 or 4 and with a cap.
    """
    if (over, ranks) != ("mpi", 4):
        return {}
    small = {"tasks": 2, "layers": 2, "max_tokens": 96, "steps": 1}
    cases = {f"{aggregation}, cp {cp}": {"aggregation": aggregation, "cp": cp, **small}
             for aggregation in AGGREGATIONS for cp in (1, 2, 4)}
    for number, aggregation in enumerate(AGGREGATIONS):
        cp = (2, 4)[number % 2]
        cases[f"{aggregation}, depth first, cp {cp}"] = {**cases[f"{aggregation}, cp {cp}"], "depth_first": True}
        cases[f"{aggregation}, depth first, capped"] = {**cases[f"{aggregation}, cp 1"], "max_kept": 6}
    return cases


MODES = {mode: {"mode": mode, "cp": 2, "max_tokens": 256, "steps": 2} for mode in ("padded", "fixed")} | {
    "cp 4": {"cp": 4, "max_tokens": 128, "steps": 2},
    "most ranks empty": {"groups": 1, "share": True, "max_tokens": 192, "steps": 2},
    "some ranks empty, cp 2": {"groups": 1, "share": "tree", "cp": 2, "max_tokens": 192, "steps": 2},
    "cp flexible": {"cp": "flexible", "max_tokens": 24, "micro_batches": "mean", "steps": 2},
    "some ranks empty, cp flexible": {
        "groups": 1, "cp": "flexible", "max_cp": 1, "max_tokens": 192, "micro_batches": "mean", "steps": 1,
    },
}
LONG = {
    "50 steps, float64": {"cp": 2, "steps": 50, "max_tokens": 128, "groups": 2},
    "50 steps, float32": {"steps": 50, "max_tokens": 128, "groups": 2, "dtype": "float32"},
}
GRPO = {
    name: {"steps": 2, "max_tokens": 96, **case}
    for name, case in {
        "two packings": {}, "one packing": {"log_prob_tokens": 96}, "cp 2": {"cp": 2}, "share": {"share": True},
        "share, one packing": {"share": True, "cp": 2, "log_prob_tokens": 96}, "tree": {"share": "tree", "cp": 2},
        "cp flexible": {"cp": "flexible", "max_tokens": 24, "log_prob_tokens": 48},
    }.items()
}


def require_equal(results, names, limit=1e-9):
    for name in names:
        assert results[name], name
        assert max(line["loss"] for line in results[name]) <= limit, name
        assert max(line["gradient"] for line in results[name]) <= limit, name


@pytest.mark.parametrize("over, ranks", JOBS)
def test_losses_and_gradients_of_aggregations_are_those_of_a_padded_batch(over, ranks):
    results = train_cases(over, ranks)
    names = [f"sft {name}" for name in aggregations(over, ranks)]
    assert len(names) == {("mpi", 1): 5, ("mpi", 4): len(AGGREGATIONS) * len(LAYOUTS)}.get((over, ranks), 10)
    require_equal(results, names)
    assert any(max(line["micro_batches"]) > 1 for name in names for line in results[name])


@pytest.mark.parametrize("over", ["mpi", "torch"])
def test_every_way_of_making_micro_batches_gives_the_same_training(over):
    results = train_cases(over, 4)
    require_equal(results, [f"sft {name}" for name in MODES])
    for name in ("most ranks empty", "some ranks empty, cp flexible"):
        assert all(0 in line["samples"] for line in results[f"sft {name}"]), name
    for line in results["sft some ranks empty, cp flexible"]:
        assert min(line["micro_batches"]) == 1  # an empty micro-batch
    assert any(len(set(line["micro_batches"])) > 1 for line in results["sft cp flexible"])


@pytest.mark.parametrize("over", ["mpi", "torch"])
def test_ratios_are_one_at_first_and_grpo_trains_as_it_does_plainly(over):
    results = train_cases(over, 4)
    require_equal(results, [f"grpo {name}" for name in GRPO])
    for name in GRPO:
        lines = results[f"grpo {name}"]
        first = max(line["ratio"] for line in lines if line["update"] == 0)
        assert first == 0 if "one packing" in name else first <= 1e-12, name
        assert min(line["ratio"] for line in lines if line["update"] == 1) > 1e-3, name


def test_grpo_with_shared_prefixes_has_the_loss_and_gradients_of_separate_samples():
    results = train_cases("mpi", 4)
    for name in ("cp 2", "share", "tree"):
        for line, other in zip(results["grpo two packings"], results[f"grpo {name}"]):
            assert line["evenkeel"] == pytest.approx(other["evenkeel"], rel=1e-9)
            assert line["gradient"] + other["gradient"] <= 1e-9  # both compare with the same plain training


def test_trees_of_a_branching_agent_train_as_its_paths_do_packed_and_depth_first():
    results = train_cases("mpi", 4)
    names = [f"branching {name}" for name in branching("mpi", 4)]
    require_equal(results, names, 1e-12)
    lines = [line for name in names for line in results[name]]
    assert all(line["trees"] < 0.8 * line["paths"] for line in lines)
    assert any(max(line["micro_batches"]) > 1 for line in lines)
    for name in names:
        for line in results[name]:
            assert (line["kept"] <= 6) == ("capped" in name) == (line["recomputed"] > 0), name
            assert (line["kept"] < line["trees"]) == ("depth first" in name), name


@pytest.mark.parametrize("over, ranks", AHEAD_JOBS)
def test_each_depth_ahead_of_samples_that_share_prefixes_has_the_loss_and_gradients_of_separate_samples(over, ranks):
    results = train_cases(over, ranks)
    for name in AHEAD:
        line = results[f"ahead {name}"]
        assert line["tokens"] < line["of"] and len(line["gradients"]) == 4, name
        assert line["loss"] < 1e-12 and max(line["gradients"]) < 1e-12, name


def test_fifty_steps_stay_together():
    results = train_cases("mpi", 2)
    require_equal(results, ["sft 50 steps, float64"])
    require_equal(results, ["sft 50 steps, float32"], 1e-3)
    for name in LONG:
        lines = results[f"sft {name}"]
        assert len(lines) == 50 and lines[-1]["plain"] < 0.7 * lines[0]["plain"]  # the model learns
