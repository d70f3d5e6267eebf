"""The service makes the same plans and the same bytes over mpi4py and over torch.distributed."""

import json
import os
import subprocess
import traceback

import pytest

import evenkeel
from jobs import ends, run


def flexible(strategy, tokens=80):
    """Returns sections with so few tokens per rank that long samples need groups."""
    log_prob = {"micro_batch": {"max_tokens_per_rank": 2 * tokens}}
    return {
        "micro_batch": {"max_tokens_per_rank": tokens},
        "balance": {"cost": "flops-7b", "strategy": strategy},
        "profiles": {"log_prob": log_prob, "update": {"pack": {"align_lcm": 16}}},
    }


MODES = {
    "plain": {},
    "context parallel": {"mesh": {"cp": 2}},
    "whole samples": {"mesh": {"cp": 2}, "pack": {"deliver": "samples"}},
    "tensor parallel, shared copies": {"mesh": {"tp": 2}, "exchange": {"tp_copies": "shared"}},
    "messages only": {"exchange": {"path": "point-to-point"}},
    "all to all": {"exchange": {"path": "alltoallv"}},
    "prefixes": {"prefix": {"share": True}},
    "equal values": {"fields": {name: {"share": "equal"} for name in ("patches", "source", "raw")}},
    "equal values in messages": {
        "mesh": {"tp": 2},
        "exchange": {"path": "point-to-point"},
        "fields": {name: {"share": "equal"} for name in ("patches", "source")},
    },
    "few shapes": {"mesh": {"cp": 2}, "micro_batch": {"max_tokens": 400, "shapes": 6}},
    "groups of their own": {"mesh": {"cp": "flexible"}, **flexible("hierarchical")},
    "groups of their own in waves": {"mesh": {"cp": "flexible"}, **flexible("grid")},
    "groups and tensor parallel": {"mesh": {"cp": "flexible", "tp": 2}, **flexible("grid", 160)},
}


def config_of(mode, **sections):
    base = {
        "micro_batch": {"max_tokens": 400},
        "profiles": {"log_prob": {"micro_batch": {"max_tokens": 800}}, "update": {"pack": {"align_lcm": 16}}},
    }
    return json.dumps({**base, **MODES.get(mode, {}), **sections})


# python/tests/parity/parity.py tests in every mode that process groups receive the same bytes as MPI.


@pytest.mark.parametrize("mode, number", [("plain", 4), ("context parallel", 2), ("groups of their own", 7)])
def test_groups_are_listed_for_those_who_make_them_all(mode, number):
    ranks = run("groups.py", 4, over="mpi", arguments=[config_of(mode)])
    assert all(rank["groups"] == ranks[0]["groups"] for rank in ranks)
    assert len(ranks[0]["groups"]) == number


@pytest.mark.parametrize("over", ["mpi", "torch"])
def test_one_rank_is_enough(over):
    (rank,) = run("steps.py", 1, over=over, arguments=[config_of("plain")])
    assert rank["results"][0]["collected"]


@pytest.mark.parametrize("over", ["mpi", "torch"])
def test_iterating_delivers_the_configured_sources_and_resumes_from_a_state(over):
    config = json.dumps(
        {
            "source": {"kind": "synthetic", "samples": 200, "seed": 3},
            "batch": {"global_batch": 40, "shuffle": True},
            "exchange": {"prefetch": 2},
        }
    )
    ranks = run("sources.py", 2, over=over, arguments=[config])
    assert [rank["steps"] for rank in ranks] == [5, 5]
    assert all(rank["equal"] for rank in ranks)
    assert ranks[0]["state"] == ranks[1]["state"]
    assert ranks[0]["bytes"] <= 64 << 10
    assert {rank["kind"] for rank in ranks} == {"numpy" if over == "mpi" else "torch"}


@pytest.mark.parametrize("over", ["mpi", "torch"])
@pytest.mark.parametrize("prefetch", [0, 2])
def test_an_iterator_may_be_open_when_the_program_ends(over, prefetch):
    for _ in range(2):
        ranks = run("open_iterator.py", 2, over=over, arguments=["end", prefetch])
        assert [rank["indices"] for rank in ranks] == [[0, 1], [0, 1]]


@pytest.mark.parametrize("over", ["mpi", "torch"])
def test_a_rank_that_ends_by_an_exception_does_not_wait_for_the_others(over):
    done = ends("open_iterator.py", 2, over=over, arguments=["raise", 2])
    text = "".join(process.stdout + process.stderr for process in done)
    assert any(process.returncode == 1 for process in done), text
    assert "RuntimeError: this rank alone" in text
    assert "exception not rethrown" not in text and "terminate called" not in text


@pytest.mark.parametrize("over", ["mpi", "torch"])
def test_a_program_that_a_failed_step_ends_ends_with_that_error(over):
    done = ends("open_iterator.py", 2, over=over, arguments=["error", 2])
    text = "".join(process.stdout + process.stderr for process in done)
    assert any(process.returncode == 1 for process in done), text
    assert "LimitError: sample " in text
    assert "exception not rethrown" not in text and "terminate called" not in text


def test_samples_steps_and_micro_batches_behave_like_python_objects():
    ranks = [rank["results"] for rank in run("mappings.py", 2, over="mpi")]
    for rank, results in enumerate(ranks):
        assert results["types"]["input_ids"] == ["int64", [1, 2, 3, 4, 5, 6]]
        assert results["types"]["pairs"][0] == "int64" and len(results["types"]["pairs"][1]) == 6
        assert results["types"]["log_probs"] == ["float32", [-0.5, -1, 0]]
        assert results["types"]["reward"] == ["float32", [1, 0.5]] and results["types"]["done"] == ["bool", [True, False]]
        assert results["shown"] == "Samples(2 samples, 6 tokens: input_ids, pairs, log_probs, reward, done)"
        assert results["mapping"] == [True, False, True, None, 3]
        assert results["missing"][0] == "MissingFieldError" and results["missing"][2:] == [True, True]
        assert "the fields are: input_ids, pairs" in results["missing"][1]
        assert "mixes booleans and numbers" in results["mixed"][1] and "mixes booleans and numbers" in results["mixed in samples"][1]
        assert "are not numbers" in results["text"][1] and "do not fit into float32" in results["too large"][1]
        assert "do not fit into int64" in results["whole"][1]
        assert all("which float32 would round" in error[1] for error in results["rounded"]) and results["exact"] == [16777216, 0.5]
        assert "has 0 rows; a field of kind sample has 2" in results["none"][1] and "different shapes" in results["shapes"][1]
        assert results["step"][:2] == [True, True] and results["step"][2].startswith("Step(0: 1 micro-batches here, 4 samples")
        assert results["part"][:2] == [True, False] and {"input_ids", "labels", "cu_seqlens", "max_seqlen"} <= set(results["part"][2])
        assert results["part"][3].startswith("MicroBatch(2 samples, 6 tokens: ")
        assert results["missing of part"][2:] == [True, True] and results["offsets"] == [True, True]
        assert results["first epoch"] == [2, 2]
        assert "all 2 steps" in results["second epoch"][1] and "batch.epochs" in results["second epoch"][1]
        assert "is already being iterated" in results["other"][1] and "is already being iterated" in results["third"][1]
        assert results["indices"] == [0, 1] and results["continued"] == [0, 1] and results["finished"] == []
        assert all(results["scales"]) and all(error[3] for error in results["wrong"])
        assert "ProgramError: no samples today" in results["cause"][0] and "\\n" not in results["cause"][0]
        assert results["cause"][1] == ("ProgramError" if rank == 0 else "NoneType")


@pytest.mark.parametrize("mesh", [{}, {"cp": 2}])
def test_padded_batches_are_converted_both_ways_and_megatron_gets_its_batches(mesh):
    pytest.importorskip("torch")
    config = json.dumps({"mesh": mesh, "micro_batch": {"max_tokens": 64}, "loss": {"aggregation": "token-sum"}})
    ranks = [rank["results"] for rank in run("adapters.py", 2, over="torch", arguments=[config])]
    for rank, results in enumerate(ranks):
        assert results["fields"] == [["input_ids", "token"], ["loss_mask", "response_token"], ["old_log_probs", "response_token"],
                                  ["responses", "response_token"], ["score", "sample"], ["source", "text"]]
        assert len(set(results["groups"])) == 3 and results["groups"][::2] == results["groups"][1::2]
        assert not set(results["groups"]) & set(ranks[1 - rank]["groups"])
        assert results["tokens"] and results["spread"] and results["values"] and results["log_probs"]
        assert "has no attention_mask" in results["no mask"] and "prompt tokens" in results["too wide"] and "'odd'" in results["odd"]
        assert results["shared"] and "attention_mask does not" in results["other mask"] and "gradient" in results["gradient"]
        assert results["mesh"] and results["shapes"] and len(results["counts"]) == 3 and min(results["counts"]) > 0
        assert "no step yet" in results["no step"] and "unconsumed" in results["left"] and results["place"].startswith("MeshError")


@pytest.mark.parametrize("over", ["mpi", "torch"])
def test_every_rank_gets_the_error_of_one_with_the_text_of_cpp(over):
    ranks = run("errors.py", 2, over=over)
    results = ranks[0]["results"]
    assert all(rank["results"] == results and rank["works"] for rank in ranks)
    assert results["python"][0] == "InputError" and "ValueError: no samples today" in results["python"][1]
    assert results["python"][2] == 1
    assert results["ours"][:2] == ["LimitError", results["ours"][1]] and "here: is too much" in results["ours"][1]
    assert results["long"][0] == "LimitError" and "99 tokens" in results["long"][1]
    assert results["nothing put"][0] == "InputError" and "odd" in results["nothing put"][1]
    assert results["without samples"] == 1
    for name, text in (("built wrongly", "field 'odd': has 2 rows"), ("of a wrong type", "TypeError: odd has the type object"),
                       ("padded wrongly", "'odd'"), ("added wrongly", "field 'odd': has 2 rows"),
                       ("put wrongly", "TypeError: values has the type set"), ("state of one", "the state: ")):
        assert results[name][0] == "InputError" and text in results[name][1] and results[name][2] == 1, results[name]
    assert "read" not in results
    assert results["configuration of one"][0] == "ConfigError" and "nonsense" in results["configuration of one"][1]
    assert results["configurations"][0] == "ConfigError" and "pack.pad_token: is 1 on rank 0" in results["configurations"][1]


SIDE_MODES = [
    "plain", "context parallel", "tensor parallel, shared copies", "prefixes", "equal values", "equal values in messages",
]


@pytest.mark.parametrize("tensors", ["numpy", "torch"])
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_rows_text_and_bytes_are_delivered_and_collected_with_their_samples(ranks, tensors):
    if tensors == "torch":
        pytest.importorskip("torch")
    modes = [mode for mode in SIDE_MODES if ranks > 1 or not ("parallel" in mode or "messages" in mode)]
    results = run("side_fields.py", ranks, over="mpi", arguments=[tensors, *map(config_of, modes)])
    for number, mode in enumerate(modes):
        of_ranks = [rank["results"][number] for rank in results]
        for found in of_ranks:
            for name in ("two ways", "sample by sample", "read", "delivered", "collected", "later", "added"):
                assert found[name], (mode, name)
            assert found["in common"] == ("equal values" in mode), mode
        places = ranks // (2 if "tensor" in mode or "context" in mode or "messages" in mode else 1)
        assert sum(found["samples"] for found in of_ranks) == 23 * ranks // places, mode
    for few, mixed, no_bytes, falling, ranges, not_split in (rank["refused"] for rank in results):
        assert "text for 1 sample, but the batch has 2" in few
        assert "has the type bytes; it must be str" in mixed
        assert "has the type str; it must be bytes" in no_bytes
        assert "start at 0 and never decrease" in falling
        assert "or one tensor per sample" in ranges
        assert not_split == "taken"  # two samples with 3 rows each


def test_tensors_are_views_that_keep_their_memory():
    pytest.importorskip("torch")
    for rank in run("views.py", 2, over="torch"):
        results = rank["results"]
        assert results["same memory each time"] and results["the trainer may write"] and results["views live on"]
        assert (results["dtype"], results["shape"]) == ("torch.bfloat16", [3])
        assert results["micro-batches left"] == 0
        assert results["copies to a device"] == 1 and results["as they were"]
        assert results["copies after other questions"] == results["copies of arrays"] == results["copies for Megatron"] == 1
        assert results["on the device"] and results["one object"] == [1, 1, 2]
        for name in ("int8", "int16", "uint16", "uint32"):
            assert results[name] == [True, True, True], name
        assert results["arrays to tensors"] == "torch.bfloat16"  # arrays have it as float32
        assert results["bfloat16 in NumPy"] == [["float32", [1.0, 0.0, -0.15625]]] * 4
        assert results["left for the collector"] == 0  # otherwise steps of several gigabytes would wait for the garbage collector
        assert "cu_seqlens_q_padded" in results["megatron"] and "cp_group" not in results["megatron"] and results["flash"]
        assert results["megatron's group"] == ["a group", 1]
        assert results["no shape"] is None
        rows, sequences, longest, cp = results["shape of a graph"]
        assert results["shaped tensors"] == [[rows], sequences + 1, longest, [sequences]] and cp == 1
        assert results["loader"] == [0, 1, 2]
        assert "steps ahead, and can follow only one sequence" in results["mixed"]


@pytest.mark.parametrize("over", ["mpi", "torch"])
def test_delivered_tensors_use_the_programs_memory(over):
    pytest.importorskip("torch")
    for rank in run("own_memory.py", 2, over=over):
        results = rank["results"]
        assert results["too small"][0] == "InputError" and "was asked for" in results["too small"][1]
        for name in ("in steps", "backwards"):
            assert results[name][0] == "InputError" and "returned a buffer that is not one contiguous row" in results[name][1]
        assert results["twice"][0] == "InputError" and "returned memory that is already in use" in results["twice"][1]
        assert results["read-only"][0] == "InputError"
        assert results["no buffer"][0] == "InputError" and "on the device meta" in results["no buffer"][1]
        assert results["delivered"] and results["collected"] and results["kept"]
        assert results["fails"][0] == "InputError" and "ValueError: no memory of that kind is left" in results["fails"][1]
        assert results["fails"][2] == 1
        assert results["works again"] and results["nested"] and results["moved"] and results["released"]
        assert "not those of" in results["segments"]
        assert results["left"] == 0


@pytest.mark.parametrize("cut", [{}, {"mesh": {"cp": 2}}, {"prefix": {"share": True}}, {"mesh": {"cp": 2}, "prefix": {"share": "tree"}}])
def test_positions_of_several_axes_are_cut_with_their_tokens(cut):
    ranks = run("axes.py", 2, over="mpi", arguments=[json.dumps({"micro_batch": {"max_tokens": 64}, **cut})])
    assert sum(rank["beside"] for rank in ranks) == sum(rank["rows"] for rank in ranks)
    shared = 6 if "prefix" in cut else 0
    assert sum(rank["rows"] for rank in ranks) == 31 - shared
    assert all(rank["collected"] is None if shared else rank["collected"] for rank in ranks)
    assert ranks[0]["refused"] == [
        "field 'position_ids': has the shape [3]. Provide [axes, tokens]",
        "field 'position_ids': has the shape [1, 2, 3]. Provide [axes, tokens]",
    ]


def test_every_context_parallel_rank_gets_whole_samples_if_they_are_delivered_so():
    pytest.importorskip("torch")
    ranks = run("whole.py", 2, over="mpi")
    assert len(ranks[0]["seen"]) > 1 and sorted(sum(ranks[0]["seen"], [])) == [0, 1, 2, 3, 4]
    assert all(rank["seen"] == ranks[0]["seen"] and rank["contexts"] == [[0, 2, rank["rank"]]] for rank in ranks)
    assert ranks[0]["back"] == [100 * (sample + 1) + token for sample, length in enumerate([5, 0, 11, 3, 16]) for token in range(length)]
    assert ranks[0]["ranks"] == [0] * 35 and ranks[1]["back"] == []
    assert ranks[0]["refused"] == [
        "field 'name': has no rows of tokens. Take a token field, or one of kind rows",
        "field 'cu_seqlens': has no rows of tokens. Take a token field, or one of kind rows",
    ]


@pytest.mark.parametrize("share", [True, "tree"])
def test_shared_prefixes_are_delivered_with_their_tree(share):
    config = {"prefix": {"share": share}, "mesh": {"cp": 2}, "micro_batch": {"max_tokens": 64}}
    for rank in run("trees.py", 2, over="mpi", arguments=[json.dumps(config)]):
        assert rank["segments"] == [2, 1, 1]
        assert rank["positions"] and rank["offsets"]
        flash, megatron, nested, iterator = rank["refused"]
        assert "their segments see others. Take micro_batch.tree.attention()" in flash
        assert megatron.startswith("packed_seq_params") and "whole sequences" in nested
        assert iterator.startswith(f"prefix.share: is {str(share).lower()}")


@pytest.mark.parametrize("prefetch", [0, 1])
def test_times_of_all_passes_are_measured_while_steps_are_iterated(prefetch):
    for rank in run("measured.py", 2, over="mpi", arguments=[prefetch]):
        assert len(rank["results"]) == 30 and rank["results"][-1] == rank["left"] == rank["resumed"]
        assert rank["left"] == {"": pytest.approx(1e-6, rel=0.01), "update": pytest.approx(2e-6, rel=0.01)}


def test_a_cost_is_fitted_to_the_times_that_a_trainer_writes(tmp_path):
    run("timed.py", 2, over="mpi", arguments=[tmp_path])
    fit = [os.environ["EVENKEEL_PROGRAM"], "fit", tmp_path / "times-1.csv"]
    results = subprocess.run(fit, capture_output=True, text=True, check=True).stdout
    assert "0.01 s per micro-batch, 3e-06 s per token, 1e-09 s per length^2\nbalance.cost: {linear: 3000, quadratic: 1}\n" in results


def test_an_object_that_is_not_a_group_is_refused():
    with pytest.raises(evenkeel.InputError, match="group: has the type str"):
        evenkeel.DataService("world", {})


@pytest.mark.parametrize("over", ["mpi", "torch"])
def test_a_watchdog_ends_a_job_whose_rank_stays_away_and_leaves_a_slow_one_alone(over):
    ranks = run("watched.py", 3, over=over, arguments=["sleep", 3])
    (results,) = [text for rank in ranks for text in rank["results"]]  # one rank reports, once
    for rank in ranks:
        (message,) = rank["ended"]
        assert "while others wait for rank 1 (host " in message
        assert "last activity: its own code" in message
        assert results.startswith(message) and "other ranks in" in results[len(message):]
    assert all(rank["results"] == rank["ended"] == [] for rank in run("watched.py", 3, over=over, arguments=["slow", 3]))


def test_a_watchdog_with_negative_seconds_is_refused():
    from mpi4py import MPI

    with pytest.raises(evenkeel.InputError, match="watchdog seconds: is -1"):
        evenkeel.Watchdog(MPI.COMM_SELF, -1)


def test_an_exception_of_a_process_group_is_the_cause_of_the_error_with_its_traceback(monkeypatch):
    distributed = pytest.importorskip("torch.distributed")
    from evenkeel import _ranks

    def broken(self, values, largest):
        raise OSError("the cable is out")

    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        monkeypatch.setattr(_ranks.TorchRanks, "all_reduce", broken)
        with pytest.raises(evenkeel.MpiError, match="process group, all_reduce: OSError: the cable is out") as raised:
            evenkeel.DataService(distributed.group.WORLD, {})
        cause = raised.value.__cause__
        assert isinstance(cause, OSError) and traceback.extract_tb(cause.__traceback__)[-1].name == "broken"
    finally:
        distributed.destroy_process_group()
