"""A service whose samples arrive while the job trains."""

import pytest

import evenkeel
from buffers import Buffer
from jobs import run


def groups_of(names):
    return [{"uid": name, "index": index, "version": 3, "prompt_ids": [1], "response_ids": [2] * (index + 1)}
            for name in names for index in range(2)]


@pytest.mark.parametrize("over", ["mpi", "torch"])
def test_a_stream_is_iterated_until_samples_end_and_may_be_left_while_it_waits(over):
    if over == "torch":
        pytest.importorskip("torch")
    options = ("--store", "memory", "--group-size", "2")
    with Buffer(*options) as whole, Buffer(*options) as left:
        producer = evenkeel.Producer(whole.url)
        producer.put(groups_of("abcd"))
        producer.end()
        evenkeel.Producer(left.url).put(groups_of("ab"))
        ranks = [rank["results"] for rank in run("arriving.py", 2, over=over, arguments=[whole.url, left.url])]
        assert ranks[0] == ranks[1]
        results = ranks[0]
        assert results["steps"] == [0, 1]
        assert results["length"][0] == "UnknownLengthError" and issubclass(evenkeel.UnknownLengthError, TypeError)
        assert results["publish"][0] == "ConfigError" and "stream.version: is step" in results["publish"][1]
        assert results["again"][0] == "InputError" and "no more samples will arrive" in results["again"][1]
        assert whole.status()["samples"]["trained"] == 8  # although no state was kept
        assert results["left"] == [0, 1]  # the next loop continues where the interrupted loop stopped
        assert results["kept"] == [8, 0] and results["saved"] == [0, 8]
        assert len(results["warned"]) == 1 and "service.report_saved()" in results["warned"][0]
        assert results["own"][0] == "EndOfSamples"
        assert left.status()["version"] == 3
