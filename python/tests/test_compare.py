"""evenkeel.compare evaluates the plans of all frameworks with one measure, and reports what it cannot compare."""

import pathlib

import pytest

import evenkeel
from evenkeel import CostModel, _peers, compare
from evenkeel._peers import Peer, Piece

FRAMEWORKS = pathlib.Path(__file__).resolve().parents[2] / "tests/frameworks"
LENGTHS = [7, 1, 2, 4, 3, 3, 6, 2]


def step(lengths, dp, cap):
    return compare.Step(lengths, dp, cap, CostModel(linear=2, quadratic=1))


def whole(lengths, *ranks):
    return [[[Piece(sample, lengths[sample]) for sample in micro_batch] for micro_batch in rank] for rank in ranks]


def one_by_one(lengths, dp, cap, call):
    """Puts sample i on rank i % dp, alone in a micro-batch."""
    return whole(lengths, *[[[sample] for sample in range(rank, len(lengths), dp)] for rank in range(dp)])


def outdated(lengths, dp, cap, call):
    raise AttributeError("module 'numpy' has no attribute 'plan'")


@pytest.fixture
def peers(monkeypatch):
    """Installed packages that represent frameworks, and one that is not installed."""
    made = {"numpy": Peer("1.0", {"one by one": one_by_one}), "pytest": Peer("2.0", {"packed": outdated}), "no-such-package": Peer("3.0", {})}
    monkeypatch.setattr(compare, "PEERS", made)


@pytest.fixture
def run(tmp_path, capsys, peers):
    def run_(*arguments, text="length\n" + "\n".join(map(str, LENGTHS)), dp="2", cap="14"):
        (tmp_path / "lengths.csv").write_text(text)
        status = compare.main([str(tmp_path / "lengths.csv"), *arguments, "--dp", dp, "--max-tokens", cap])
        return status, *capsys.readouterr()

    return run_


@pytest.mark.parametrize("meet", ["step", "micro-batch"])
def test_the_measure_is_that_of_plans(meet):
    lengths = [1 + index * 7919 % 600 for index in range(200)]
    of = step(lengths, 4, 1024)
    plan = evenkeel.plan(lengths, mesh={"dp": 4}, micro_batch={"max_tokens": 1024}, balance={"cost": {"linear": 2, "quadratic": 1}, "meet": meet})
    figures = compare.evaluate(of, whole(lengths, *[[m.samples.tolist() for m in rank.micro_batches] for rank in plan.ranks]))
    mean_over_bound = of.cost(lengths).sum() / 4 / evenkeel.balance.max_sum_lower_bound(of.cost(lengths), 4)
    assert figures.end_over_bound_once == pytest.approx(plan.quality["dp_max_over_mean"] * mean_over_bound)
    assert figures.end_over_bound_every_micro_batch == pytest.approx(plan.quality["step_max_over_mean"] * mean_over_bound)
    assert figures.micro_batches == plan.num_micro_batches and figures.above_cap == figures.cut_samples == figures.wrong_samples == 0


def test_micro_batches_above_the_cap_are_counted():
    figures = compare.evaluate(step([4, 4, 4, 4], 2, 5), whole([4, 4, 4, 4], [[0, 1]], [[2], [3]]))
    assert (figures.above_cap, figures.fullest_over_cap, figures.micro_batches) == (1, 8 / 5, 2)


def test_ranks_that_meet_at_each_micro_batch_wait_there():
    figures = compare.evaluate(step([4, 2, 2, 4], 2, 9), whole([4, 2, 2, 4], [[0], [1]], [[2], [3]]))
    assert figures.end_over_bound_once == 1 and figures.end_over_bound_every_micro_batch == (24 + 24) / (24 + 8)


def test_padding_is_computed_and_counts_below_the_cap():
    figures = compare.evaluate(step([4, 2], 1, 7), [[[Piece(0, 4), Piece(1, 2, padding=2)]]])
    assert figures.padding == 2 / 6 and figures.above_cap == 1 and figures.end_over_bound_once == (24 + 24) / (24 + 8)


def test_parts_of_a_cut_sample_do_not_attend_to_each_other():
    figures = compare.evaluate(step([4], 1, 4), [[[Piece(0, 3)], [Piece(0, 1)]]])
    assert figures.cut_samples == 1 and figures.wrong_samples == 0 and figures.end_over_bound_once == (15 + 3) / 24


def test_ranks_that_share_a_sample_share_its_tokens_and_work():
    figures = compare.evaluate(step([4, 2, 2], 2, 4), [[[Piece(0, 4, ranks=2)], [Piece(1, 2)]], [[Piece(0, 4, ranks=2)], [Piece(2, 2)]]])
    assert figures.cut_samples == 1 and figures.wrong_samples == 0 and figures.fullest_over_cap == 2 / 4 and figures.end_over_bound_once == (12 + 8) / 24


@pytest.mark.parametrize("micro_batches", [[[Piece(0, 4)]], [[Piece(0, 4)], [Piece(1, 2), Piece(0, 4)]], [[Piece(0, 3), Piece(1, 2)]]])
def test_tokens_that_are_missing_or_repeated_are_found(micro_batches):
    figures = compare.evaluate(step([4, 2], 1, 10), [micro_batches])
    assert figures.wrong_samples == 1
    assert "numpy: tokens of 1 sample are missing or repeated" in compare.text_of(step([4, 2], 1, 10), [("numpy", figures, 1.0)])


def test_the_table_has_evenkeel_and_the_framework_with_its_version(run):
    import numpy

    status, table, errors = run("--with", "numpy", "--linear", "2")
    lines = table.splitlines()
    assert (status, errors) == (0, "")
    assert lines[0] == "8 samples, 28 tokens on 2 DP ranks, at most 14 tokens per micro-batch; cost = 2 * length + length^2"
    assert [line.split("  ")[0] for line in lines[3:6]] == ["evenkeel, meet: step", "evenkeel, meet: micro-batch",
                                                           f"numpy {numpy.__version__}, one by one"]
    cost = [n * n + 2 * n for n in LENGTHS]
    bound = sum(cost) / 2
    ends = [sum(cost[0::2]) / bound, sum(map(max, cost[0::2], cost[1::2])) / bound]
    assert lines[5].split()[-8:-1] == ["4", "0", "0.500", "0.0%", "0", *(f"{end:.4f}" for end in ends)]


@pytest.mark.parametrize(("arguments", "status", "expected"), [
    (["--with", "numpi"], 1, "packages (--with): 'numpi' is unknown. Name one of numpy, pytest, no-such-package"),
    (["--with", "numpy,"], 1, "packages (--with): '' is unknown"),
    (["--with", "no-such-package"], 1, "no-such-package is not installed. Install it: python3 -m pip install no-such-package==3.0"),
    (["--with", "pytest"], 1, "packed: cannot plan this step: AttributeError: module 'numpy' has no attribute 'plan'. Install version 2.0, which was tested"),
    ([], 2, "the following arguments are required: --with"),
    (["--with", "numpy", "--linear", "-1"], 1, "linear: is -1; it must be at least 0"),
])
def test_frameworks_that_cannot_be_compared_are_named(run, arguments, status, expected):
    found, table, errors = run(*arguments)
    assert (found, table) == (status, "") and expected in errors


@pytest.mark.parametrize(("given", "status", "expected"), [
    ({"dp": "3"}, 1, "LENGTHS: the number of samples, 8, is not a multiple of the number of DP ranks, 3, but frameworks"),
    ({"cap": "6"}, 1, "sample 0: has 7 tokens"),
])
def test_steps_that_cannot_be_planned_are_refused(run, given, status, expected):
    found, table, errors = run("--with", "numpy", **given)
    assert (found, table) == (status, "") and expected in errors


@pytest.mark.parametrize("text", ["length\n5\n6\n", "5\n6\n", "prompt_length,response_length\n2,3\n4,2\n", "uid,length\na,5\n\nb,6\n"])
def test_lengths_are_read(tmp_path, text):
    (tmp_path / "lengths.csv").write_text(text)
    assert compare.read_lengths(str(tmp_path / "lengths.csv")) == [5, 6]


@pytest.mark.parametrize(("text", "expected"), [
    ("", "lengths.csv: has no lengths"),
    ("length\n", "lengths.csv: has no lengths"),
    ("length\n5\nfive\n", "lengths.csv:3: cannot read a length from 'five'"),
    ("uid,length\na,5\nb\n", "lengths.csv:3: cannot read a length from 'b'"),
    ("prompt_length\n5\n", "lengths.csv:1: cannot read a length from 'prompt_length'"),
    ("5,6\n", "lengths.csv:1: cannot read a length from '5,6'"),
    ("length\n5\n0\n", "lengths.csv:3: the length is 0; a sample must have at least 1 token"),
])
def test_files_without_lengths_are_refused(run, text, expected):
    status, table, errors = run("--with", "numpy", text=text)
    assert (status, table) == (1, "") and expected in errors


def test_a_file_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(evenkeel.errors.IoError, match="cannot be read"):
        compare.read_lengths(str(tmp_path / "missing.csv"))


@pytest.mark.parametrize("name", _peers.PEERS)
def test_the_tested_version_is_the_one_that_tests_install(name):
    pins = [file.read_text() for file in FRAMEWORKS.glob("*/*.txt")]
    assert any(f"\n{name}=={_peers.PEERS[name].tested}\n" in "\n" + text for text in pins)


@pytest.mark.parametrize("option", ["--dp", "--max-tokens"])
@pytest.mark.parametrize("value", ["0", "auto"])
def test_counts_below_one_are_refused_by_option(run, option, value):
    status, _, error = run("--with", "numpy", option, value, **({"dp": value} if option == "--dp" else {"cap": value}))
    assert status == 2 and f"argument {option}: is '{value}'; it must be a whole number of at least 1" in error
