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
        ranks = [rank["told"] for rank in run("arriving.py", 2, over=over, arguments=[whole.url, left.url])]
        assert ranks[0] == ranks[1]
        told = ranks[0]
        assert told["steps"] == [0, 1]
        assert told["length"][0] == "UnknownLengthError" and issubclass(evenkeel.UnknownLengthError, TypeError)
        assert told["publish"][0] == "ConfigError" and "stream.version: is step" in told["publish"][1]
        assert told["again"][0] == "InputError" and "no more samples will arrive" in told["again"][1]
        assert whole.status()["samples"]["trained"] == 8  # although no state was kept
        assert told["left"] == [0, 1]  # the next loop continues where the interrupted loop stopped
        assert told["kept"] == [8, 0] and told["saved"] == [0, 8]
        assert len(told["warned"]) == 1 and "service.saved()" in told["warned"][0]
        assert told["own"][0] == "EndOfSamples"
        assert left.status()["version"] == 3
