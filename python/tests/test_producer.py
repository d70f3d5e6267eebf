"""Tests what evenkeel.Producer promises to a rollout worker, against the program's own server."""

import http.server
import os
import pathlib
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest

import evenkeel
from buffers import Buffer


def sample(uid, index, **more):
    return {"uid": uid, "index": index, "version": 0, "prompt_ids": [1, 2], "response_ids": [3], **more}


@pytest.fixture(name="buffer")
def fixture_buffer():
    with Buffer("--store", "memory", "--group-size", "2") as buffer:
        yield buffer


def test_put_counts_what_happened_to_the_samples(buffer):
    producer = evenkeel.Producer(buffer.url)
    assert producer.put([sample("a", 0), sample("a", 1)]) == evenkeel.producer.Receipt(accepted=2)
    assert producer.put(sample("a", 1)) == evenkeel.producer.Receipt(duplicates=1)
    assert buffer.status()["groups"]["ready"] == 1


def test_a_key_with_different_content_is_refused_and_a_resent_sample_is_a_duplicate_even_after_the_end(buffer):
    producer = evenkeel.Producer(buffer.url)
    producer.put([sample("a", 0), sample("a", 1)])
    with pytest.raises(evenkeel.InputError, match=r"samples\[1\]: sample 1 of group 'a' was already received with different content"):
        producer.put([sample("b", 0), sample("a", 1, response_ids=[4])])
    producer.end()
    assert producer.put(sample("a", 0)).duplicates == 1
    with pytest.raises(evenkeel.InputError, match="after the end"):
        producer.put(sample("b", 0))


def test_samples_of_slime_with_one_key_and_other_tokens_are_refused_together_and_one_after_the_other(buffer):
    def of_slime(tokens):
        given = {"group_index": 5, "index": 11, "rollout_id": 3, "tokens": tokens, "response_length": 1, "reward": 0.5,
                 "weight_versions": ["0"]}
        return evenkeel.rollouts.from_slime(given, group_size=2)

    producer = evenkeel.Producer(buffer.url)
    for first in ([of_slime([1, 2]), of_slime([1, 3])], [of_slime([1, 2])]):
        refused = pytest.raises(evenkeel.InputError, match="sample 1 of group 5 was already received with different content")
        if len(first) == 1:
            producer.put(first)
            first = [of_slime([1, 3])]
        with refused:
            producer.put(first)
    assert buffer.status()["samples"]["received"] == 1


def test_put_takes_arrays(buffer):
    producer = evenkeel.Producer(buffer.url)
    arrays = sample("a", 0, prompt_ids=np.array([1, 2]), reward=np.float32(0.5), advantages=np.array([0.25]))
    assert producer.put(arrays).accepted == 1
    with pytest.raises(ValueError):
        producer.put(sample("b", 0, reward=float("nan"), advantages=[0.5]))
    with pytest.raises(TypeError, match="a value of the type bytes cannot be sent"):
        producer.put(sample("b", 0, image=b"pixels"))


def test_add_fields_counts_added_fields_and_refuses_a_different_value():
    with Buffer("--store", "memory", "--late-fields", "old_log_probs,values") as buffer:
        evenkeel.Producer(buffer.url).put([sample("a", 0), sample("b", 0)])
        producer = evenkeel.Producer(buffer.url)  # not the producer that sent the samples
        fields = [{"uid": uid, "index": 0, "values": np.array([0.5], np.float32), "old_log_probs": [0, 0, -1.5]} for uid in "ab"]
        assert producer.add_fields(fields[0]) == evenkeel.producer.FieldsReceipt(added=1)
        assert buffer.status()["missing_fields"] == {"old_log_probs": 1, "values": 1}
        assert producer.add_fields(fields) == evenkeel.producer.FieldsReceipt(added=1, duplicates=1)
        assert buffer.status()["groups"]["ready"] == 2
        with pytest.raises(evenkeel.InputError, match=r"samples\[0\]: has a different value of field 'values' of sample 0 of group 'a'"):
            producer.add_fields({"uid": "a", "index": 0, "values": [1.5]})
        with pytest.raises(evenkeel.InputError, match="sample 0 of group 'c', which has not been received"):
            producer.add_fields({"uid": "c", "index": 0, "values": [1.5]})


def test_put_sends_many_samples_in_several_requests(buffer, monkeypatch):
    monkeypatch.setattr(evenkeel.producer, "_BYTES_OF_REQUEST", 1000)
    assert evenkeel.Producer(buffer.url).put(sample(f"g{i}", 0) for i in range(100)).accepted == 100


def test_refusals_of_the_server_are_raised_with_their_text(buffer):
    producer = evenkeel.Producer(buffer.url)
    with pytest.raises(evenkeel.InputError, match=r"samples\[1\]: has no response_ids"):
        producer.put([sample("a", 0), {"uid": "a", "index": 1, "version": 0, "prompt_ids": []}])
    assert buffer.status()["samples"]["received"] == 0
    producer.put(sample("a", 0))
    with pytest.raises(evenkeel.InputError, match="reward"):
        producer.put(sample("a", 1, reward=1.0))


def test_groups_close_and_abort_and_the_stream_ends(buffer):
    producer = evenkeel.Producer(buffer.url)
    assert producer.tickets(3) == 3
    producer.put([sample("a b/c", 0), sample(7, 0), sample("d", 0), sample("d", 1)])
    producer.abort("a b/c", reason="its tool is broken")
    producer.close(7)
    producer.end()
    status = buffer.status()
    assert status["ended"] and status["samples"]["waiting"] == 2
    assert status["samples"]["dropped"]["aborted"] == 1 and status["samples"]["dropped"]["too_small"] == 1


def test_a_token_is_required_if_the_server_has_one(tmp_path):
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text("secret\n", encoding="utf-8")
    with Buffer("--store", "memory", "--token-file", str(token)) as buffer:
        assert evenkeel.Producer(buffer.url, token="secret").put(sample("a", 0)).accepted == 1
        with pytest.raises(evenkeel.ConfigError, match="Authorization"):
            evenkeel.Producer(buffer.url, token="guess").put(sample("a", 1))


def test_a_buffer_that_is_not_there_is_tried_until_patience_is_over():
    with pytest.raises(evenkeel.IoError, match="gave up after 0.2 seconds"):
        evenkeel.Producer("http://127.0.0.1:1", patience=0.2).put(sample("a", 0))
    with pytest.raises(evenkeel.ConfigError):
        evenkeel.Producer("nonsense")


def test_an_integer_is_aborted_before_its_first_sample_and_a_group_is_closed_only_after_it(buffer):
    producer = evenkeel.Producer(buffer.url)
    producer.abort(7, 0, reason="the tool hung")
    producer.put(sample(7, 1))
    assert buffer.status()["samples"]["dropped"]["late"] == 1  # the group is closed, since one of its two samples was aborted
    producer.put(sample("7\n", 0))
    producer.close("7\n")
    assert buffer.status()["groups"]["open"] == 0
    with pytest.raises(evenkeel.InputError, match="group 'q9': is unknown: none of its samples has been received"):
        producer.close("q9")
    with pytest.raises(evenkeel.InputError, match="at most 1024 are allowed"):
        producer.abort("q9", reason="r" * 1025)


class Dropping(http.server.BaseHTTPRequestHandler):
    """Grants tickets, but drops the connection before the first answer to each request."""

    protocol_version = "HTTP/1.1"
    requests: list = []

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.requests.append((self.headers["Idempotency-Key"], self.headers["Evenkeel-Holder"]))
        if len(self.requests) % 2 == 1:
            self.close_connection = True
            return
        self.send_response(200)
        content = b'{"granted": 1, "version": 0}'
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *words):
        pass


def test_a_retry_for_tickets_is_the_same_request():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Dropping)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    producer = evenkeel.Producer(f"http://127.0.0.1:{server.server_port}", holder="worker 7")
    assert producer.tickets(1) == 1 and producer.tickets(1) == 1
    keys = [key for key, holder in Dropping.requests if holder == "worker 7"]
    assert keys[0] == keys[1] != keys[2] == keys[3]
    server.shutdown()
    server.server_close()


class Failing(http.server.BaseHTTPRequestHandler):
    """First answers 429, then drops the connection after reading the request, then accepts the request."""

    protocol_version = "HTTP/1.1"
    bodies: list = []

    def do_POST(self):
        self.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        if len(self.bodies) == 2:
            self.close_connection = True
            return
        content = b'{"error": "full"}' if len(self.bodies) == 1 else b'{"accepted": 0, "duplicates": 1, "stale": 0, "version": 4}'
        self.send_response(429 if len(self.bodies) == 1 else 200)
        self.send_header("Retry-After", "0")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *words):
        pass


def test_the_same_is_sent_again_until_it_is_acknowledged():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Failing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    producer = evenkeel.Producer(f"http://127.0.0.1:{server.server_port}")
    assert producer.put(sample("a", 0)).duplicates == 1
    assert producer.version == 4
    assert len(Failing.bodies) == 3 and len(set(Failing.bodies)) == 1
    server.shutdown()
    server.server_close()


def test_it_needs_neither_the_c_library_nor_numpy(tmp_path):
    package = pathlib.Path(evenkeel.__file__).resolve().parent
    shutil.copytree(package, tmp_path / "evenkeel", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    program = ("import sys, evenkeel; evenkeel.Producer('http://127.0.0.1:1'); print('numpy' in sys.modules)\n"
               "try: evenkeel.plan\nexcept ImportError as error: print(error)")
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path,
                         env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert run.stdout.startswith("False\nevenkeel.plan needs the C library")


def test_it_does_not_need_numpy_if_the_c_library_is_installed():
    program = ("import sys; sys.modules['numpy'] = None\n"
               "import evenkeel; evenkeel.Producer('http://127.0.0.1:1')\n"
               "try: evenkeel.plan\nexcept ImportError as error: print(error)")
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("evenkeel.plan needs NumPy")


def test_the_asynchronous_example_sends_every_rollout_and_closes_groups_that_lack_one():
    example = pathlib.Path(__file__).parents[2] / "examples" / "asynchronous_producer.py"
    if not example.exists():
        pytest.skip("the package is tested without the repository")
    with Buffer("--store", "memory", "--group-size", "4", "--min-group", "2") as buffer:
        run = subprocess.run([sys.executable, example, buffer.url], capture_output=True, text=True, check=True)
        status = buffer.status()
        sent = status["samples"]["received"]
        assert f"{sent} samples in 16 groups" in run.stdout and 48 < sent < 64, run.stdout  # some servers were restarted
        assert status["groups"] == {"open": 0, "ready": 16, "formed": 0} and status["ended"]
