"""Clients of a store's socket share memory with it. Everything that evenkeel.values promises also holds then."""

import concurrent.futures
import gc
import logging
import os
import signal
import threading

import numpy as np
import pytest

import evenkeel
from buffers import Store
from evenkeel import _answer_files, values
from evenkeel.values import ValueClient

LARGE = 100_000  # bytes: large enough for an answer file
MIN_FILE_ANSWER = 64 << 10


@pytest.fixture(name="socket", scope="module")
def fixture_socket(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "socket"
    with Store("--store", "memory", "--socket", str(path)):
        yield f"unix:{path}"


@pytest.fixture(name="client")
def fixture_client(socket):
    client = ValueClient(socket)
    client.clear()
    yield client
    client.close()


@pytest.fixture(name="received")
def fixture_received(monkeypatch):
    """Records the sizes of all reads from sockets, except for JSON."""
    received = []
    read = values._read
    monkeypatch.setattr(values, "_read", lambda response, into: received.append(into.size) or read(response, into))
    return received


def full(value, size=LARGE):
    return np.full((1, size), value, np.uint8)


def files_of(client):
    return list(client._files._alive)


@pytest.mark.parametrize("size", [1, 1000, LARGE, 3_000_000])
def test_values_of_any_size_are_returned_in_aligned_memory(client, received, size):
    random = np.random.default_rng(size)
    fields = {"bytes": random.integers(0, 255, (5, size), np.uint8), "doubles": random.random((5, size)), "odd": np.zeros((5, 3), np.int8),
              "ragged": [random.random((i, 3)) for i in range(5)]}
    client.put(range(5), fields)
    found = client.get([4, 2], list(fields))
    assert all((found[name][i] == fields[name][index]).all() for name in fields for i, index in enumerate([4, 2]))
    is_shared = 2 * 9 * size > MIN_FILE_ANSWER
    assert (received == []) == is_shared and (not is_shared or found["doubles"].stacked().ctypes.data % 64 == 0)


def test_slices_arrive_in_shared_memory(client, received):
    rows = np.random.default_rng(0).random((3, 200, 300))
    client.put(range(3), {"rows": rows})
    found = client.get([0, 2], ["rows"], slices={"rows": [{"axis": 0, "ranges": [[3, 90]]}, {"axis": 1, "ranges": [[0, 7], [99, 260]]}]})
    assert all((one == np.concatenate([row[3:90, :7], row[3:90, 99:260]], 1)).all() for one, row in zip(found["rows"], rows[[0, 2]]))
    assert received == []


def test_a_value_never_changes_while_a_view_of_it_exists(client):
    client.put(range(20), {"a": np.arange(20, dtype=np.uint8)[:, None].repeat(LARGE, 1)})
    views = [client.get([i], ["a"])["a"][0][i:i + 5] for i in range(20)]  # neither the Values object nor the whole array exists anymore
    for i in range(20):
        client.get([i], ["a"])
    assert all((view == i).all() for i, view in enumerate(views))


def test_a_tensor_never_changes_either(client):
    torch = pytest.importorskip("torch")
    client.put(range(8), {"a": torch.arange(8, dtype=torch.uint8)[:, None].repeat(1, LARGE)})
    tensors = [client.get([i], ["a"])["a"].flat_tensor().view(torch.int32)[3:9].view(torch.uint8) for i in range(8)]
    for i in range(8):
        client.get([i], ["a"])
    assert all((tensor == i).all() for i, tensor in enumerate(tensors))


def test_a_file_is_used_again_after_the_last_view_is_gone(client):
    client.put([0], {"a": full(7)})
    for _ in range(50):
        kept = client.get([0], ["a"])["a"][0][1:3]
    del kept
    gc.collect()
    assert len(files_of(client)) <= 2 and len(client._files._idle) == len(files_of(client))


def test_more_answers_than_files_can_be_kept(client):
    client.put([0], {"a": full(7)})
    kept = [client.get([0], ["a"])["a"][0] for _ in range(_answer_files._MAX_FILES + 5)]
    client.put([1], {"a": full(8)})
    assert all((array == 7).all() for array in kept) and (client.get([1], ["a"])["a"][0] == 8).all() and len(files_of(client)) == _answer_files._MAX_FILES


def test_idle_files_do_not_keep_more_memory_than_the_limit(client, monkeypatch):
    monkeypatch.setattr(_answer_files, "_MAX_IDLE_BYTES", 4 * LARGE)
    client.put([0], {"a": full(7)})
    kept = [client.get([0], ["a"]) for _ in range(9)]
    del kept
    gc.collect()
    assert sum(file.size for file in files_of(client)) <= 4 * LARGE


def test_a_forked_child_keeps_its_view_while_the_parent_continues(client):
    client.put([0, 1], {"a": np.concatenate([full(7), full(9)])})
    view = client.get([0], ["a"])["a"][0]
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(reading, 1)
        mine = ValueClient.get(client, [1], ["a"])["a"][0]  # uses files of its own
        os._exit(0 if (view == 7).all() and (mine == 9).all() else 1)
    del view
    for _ in range(3):
        assert (client.get([1], ["a"])["a"][0] == 9).all()
    os.write(writing, b"x")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_threads_share_files(client):
    def put_and_get(i):
        client.put([i], {"a": full(i, LARGE + i)})
        return bool((client.get([i], ["a"])["a"][0] == i).all())

    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        assert all(threads.map(put_and_get, range(100)))


def test_values_travel_through_the_socket_if_no_memory_can_be_shared_which_is_logged_once(socket, received, monkeypatch, caplog):
    create = os.memfd_create
    monkeypatch.setattr(os, "memfd_create", lambda name, flags: create("of another kind", flags))
    client = ValueClient(socket)
    with caplog.at_level(logging.WARNING):
        client.put([0], {"a": full(7)})
        client.put([1], {"a": full(8)})
        assert (client.get([0, 1], ["a"])["a"].stacked()[:, 0] == [7, 8]).all()
    assert len(caplog.messages) == 1 and received[-1] == 2 * LARGE
    assert "cannot share memory with this process, so values travel through the socket" in caplog.messages[0]
    assert "not a memory file named evenkeel-answer" in caplog.messages[0]


def test_values_travel_through_the_socket_without_memory_for_a_file(client, received, monkeypatch):
    def fail(name, flags):
        raise OSError("no memory")

    monkeypatch.setattr(os, "memfd_create", fail)
    client.put([0], {"a": full(7)})
    assert (client.get([0], ["a"])["a"][0] == 7).all() and received[-1] == LARGE


def test_only_clients_of_a_socket_share_memory(tmp_path):
    with Store("--store", "memory") as store:
        client = ValueClient(store.url)
        assert client._files is None
        client.put([0], {"a": full(7)})
        headers = _answer_files.FileAnswer(_answer_files.AnswerFiles()).headers()
        with pytest.raises(evenkeel.InputError, match="can only be used over the server's UNIX socket"):
            client._server.request("POST", "/v1/values/get", b'{"indexes":[0],"fields":["a"]}', headers=headers)


def test_a_failed_attempt_does_not_leave_its_file_to_others(client):
    answer = _answer_files.FileAnswer(client._files)
    first = answer.headers()
    failed = answer._file
    second = answer.headers()
    answered = answer._file
    answer.end()
    assert first != second and client._files._idle == [answered] and answered is not failed


def test_acknowledged_values_survive_kills_of_the_store(tmp_path):
    """Each put writes one version into two fields of all samples. The store must have the last acknowledged version, or the one
    that was being put, and never a mix of both."""
    options = ["--dir", str(tmp_path / "values"), "--socket", str(tmp_path / "socket"), "--capacity", "256MiB"]
    acknowledged, ending = [0], threading.Event()

    def put():
        client = ValueClient(f"unix:{tmp_path / 'socket'}", patience=60)
        while not ending.is_set():
            version = acknowledged[-1] + 1
            client.put(range(4), {name: np.full((4, 50_000), version) for name in "ab"})
            acknowledged.append(version)

    store = Store(*options)
    thread = threading.Thread(target=put)
    thread.start()
    try:
        for kill in range(6):
            begun = len(acknowledged)
            while len(acknowledged) < begun + 2 + kill % 2:
                assert thread.is_alive()
                ending.wait(0.01 + 0.003 * kill)
            store.process.send_signal(signal.SIGKILL)
            store.process.wait()
            before = acknowledged[-1]
            store = Store(*options)
            found = ValueClient(f"unix:{tmp_path / 'socket'}", patience=60).get(range(4), ["a", "b"])
            seen = {int(value) for field in found.values() for array in field for value in (array[0], array[-1])}
            assert len(seen) == 1 and before <= seen.pop() <= acknowledged[-1] + 1
            assert all((array == array[0]).all() for field in found.values() for array in field)
    finally:
        ending.set()
        thread.join()
        store.process.kill()
        store.process.wait()
        store.process.stdout.close()
