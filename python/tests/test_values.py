"""Tests what evenkeel.values promises, against the program's own store."""

import concurrent.futures
import http.server
import json
import os
import pathlib
import shutil
import socketserver
import subprocess
import sys
import threading

import numpy as np
import pytest

import evenkeel
from buffers import Store
from evenkeel import values
from evenkeel.values import ValueClient

DTYPES = ["bool", "uint8", "int8", "uint16", "int16", "float16", "uint32", "int32", "float32", "uint64", "int64", "float64", "complex64"]
SHAPES = [(), (1,), (5,), (0,), (2, 3), (2, 0, 3)]


@pytest.fixture(name="store", scope="module")
def fixture_store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoints")
    with Store("--store", "memory", "--checkpoints", str(folder)) as store:
        store.checkpoints = folder
        yield store


@pytest.fixture(name="client")
def fixture_client(store):
    client = ValueClient(store.url)
    client.clear()
    yield client
    client.close()


def numbers(shape, dtype, seed=0):
    """Returns random bits, except for booleans."""
    random = np.random.default_rng(seed)
    if dtype == "bool":
        return random.integers(0, 2, shape).astype(bool)
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.frombuffer(random.bytes(size), dtype).reshape(shape)


def same(one, other):
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_are_returned_bit_by_bit_in_the_order_of_the_indexes(client, dtype, shape):
    rows = numbers((4, *shape), dtype)
    client.put([3, 1, 8, 2], {"rows": rows})
    found = client.get([1, 2, 3], ["rows"])["rows"]
    assert same(found.stacked(), rows[[1, 3, 0]])
    assert [same(one, other) for one, other in zip(found, rows[[1, 3, 0]])] == [True] * 3


def test_values_of_one_field_may_have_different_shapes_and_dtypes(client):
    rows = [numbers((3, 2), "float32"), numbers((0,), "float32"), numbers((), "float32"), numbers((1, 2, 3), "float32")]
    client.put(range(4), {"rows": rows})
    client.put([4, 5], {"rows": [numbers((3,), "bool"), numbers((2,), "int64")]})
    found = client.get(range(6), ["rows"])["rows"]
    assert found.dtype == "" and found.dtypes[3:] == ["F32", "BOOL", "I64"]
    for one, other in zip(found, [*rows, numbers((3,), "bool"), numbers((2,), "int64")]):
        assert same(one, other)
    with pytest.raises(evenkeel.InputError, match="BOOL, F32, I64"):
        found.stacked()


def test_bytes_are_not_interpreted(client):
    texts = [b"", b"\x00\xff" * 9, "\N{SNOWMAN}".encode()]
    client.put([0, 1, 2], {"text": texts})
    assert list(client.get([2, 1, 0], ["text"])["text"]) == texts[::-1]


def test_tensors_of_every_dtype_are_returned_bit_by_bit(client):
    torch = pytest.importorskip("torch")
    names = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float16", "uint32", "int64", "bool", "complex64"]
    for dtype in (getattr(torch, name) for name in names if hasattr(torch, name)):
        rows = torch.tensor([[0, 1, 1], [1, 1, 0]]).to(torch.float32).to(dtype)
        client.put([0, 1], {"rows": rows})
        found = client.get([1, 0], ["rows"])["rows"]
        assert found.tensor(0).dtype == dtype
        assert all(torch.equal(found.tensor(i).view(torch.uint8), rows[1 - i].view(torch.uint8)) for i in (0, 1))


def test_nested_tensors_of_both_layouts_transposed_and_sliced_ones_keep_their_values(client):
    torch = pytest.importorskip("torch", minversion="2.4")
    parts = [torch.arange(6.0).reshape(2, 3), torch.arange(3.0).reshape(1, 3)]
    jagged = torch.nested.nested_tensor(parts, layout=torch.jagged)
    holes = torch.nested.narrow(torch.arange(12.0).reshape(2, 6), 1, torch.tensor([1, 0]), torch.tensor([2, 4]), layout=torch.jagged)
    fields = {"jagged": jagged, "strided": torch.nested.nested_tensor([parts[0], parts[1][:, :2]]), "holes": holes,
              "transposed": torch.arange(6.0).reshape(3, 2).T, "list": parts}
    client.put([0, 1], fields)
    found = client.get([0, 1], list(fields))
    for name, rows in fields.items():
        assert all(torch.equal(found[name].tensor(i), row) for i, row in enumerate(rows)), name


def test_a_put_replaces_values_also_by_others_of_another_dtype_and_shape(client):
    client.put([0, 1], {"a": np.zeros((2, 3)), "b": np.ones(2)})
    client.put([1], {"a": np.full((1, 2), 7, np.int32)})
    found = client.get([0, 1], ["b", "a"])
    assert same(found["a"][0], np.zeros(3)) and same(found["a"][1], np.full(2, 7, np.int32)) and same(found["b"].stacked(), np.ones(2))


def test_a_missing_value_is_named_and_a_key_error(client):
    client.put([0, 1], {"a": np.zeros(2)})
    with pytest.raises(evenkeel.MissingFieldError, match=r"(?s)2.*a") as missing:
        client.get([0, 2, 1], ["a"])
    assert isinstance(missing.value, KeyError)
    client.clear([1], ["a"])
    with pytest.raises(KeyError):
        client.get([1], ["a"])


def test_thirty_two_fields_travel_in_one_request_and_keep_their_order(client, monkeypatch):
    names = [f"field {i} \N{SNOWMAN}" for i in range(32)]
    fields = {name: numbers((3, i % 5), DTYPES[i % len(DTYPES)], seed=i) for i, name in enumerate(names)}
    requests = []
    send = client._server.request
    monkeypatch.setattr(client._server, "request", lambda method, path, *rest, **more: requests.append(path) or send(method, path, *rest, **more))
    client.put([5, 6, 7], fields)
    found = client.get([5, 6, 7], names[::-1])
    assert requests == ["/v1/values", "/v1/values/get"] and list(found) == names[::-1]
    assert all(same(found[name].stacked(), rows) for name, rows in fields.items())


def test_slices_are_those_of_numpy_on_any_axis_and_on_two(client):
    rows = [numbers((6, 4, 3), "int16", seed) for seed in (1, 2)]
    client.put([0, 1], {"rows": rows})

    def found(*cuts):
        return client.get([0, 1], ["rows"], slices={"rows": list(cuts)})["rows"]

    for one, row in zip(found({"axis": 1, "ranges": [[0, 1], [2, 4]]}), rows):
        assert same(one, np.concatenate([row[:, :1], row[:, 2:]], 1))
    of_each = found({"axis": 0, "ranges_per_index": [[[0, 2], [4, 6]], [[3, 3]]]}, {"axis": 2, "ranges": [[1, 2]]})
    assert same(of_each[0], np.concatenate([rows[0][:2], rows[0][4:]])[:, :, 1:2]) and same(of_each[1], rows[1][:0, :, 1:2])
    with pytest.raises(evenkeel.InputError):
        found({"axis": 0, "ranges": [[0, 7]]})


@pytest.mark.parametrize("most", [100, 10**9], ids=["by its bytes", "by the refusal of the store"])
def test_large_puts_and_gets_are_halved(client, monkeypatch, most):
    monkeypatch.setattr(values, "_BYTES_OF_REQUEST", most)
    fields = {"dense": numbers((7, 9), "int32"), "list": [numbers((i, 2), "uint8", i) for i in range(7)], "bits": numbers((7, 3), "bool")}
    send = client._server.request

    def limited(method, path, body, **more):
        text = body if isinstance(body, bytes) else bytes(body[0])[8:].partition(b" ")[0]
        if len(json.JSONDecoder().raw_decode(text.decode(errors="replace"))[0]["indexes"]) > 2:
            raise evenkeel.LimitError("too much")
        return send(method, path, body, **more)

    monkeypatch.setattr(client._server, "request", limited)
    assert client.put(range(7), fields) == 7 * 9 * 4 + 42 + 21
    found = client.get(range(7), list(fields), slices={"list": {"axis": 0, "ranges_per_index": [[[0, i]] for i in range(7)]}})
    for name, rows in fields.items():
        assert all(same(one, other) for one, other in zip(found[name], rows)) and len(found[name]) == 7


def test_unsupported_values_are_refused_with_the_name_of_the_field(client):
    for rows, why in (([{"a": 1}], "has a value of the type dict"), (np.zeros(2), "has 2 values for 1 index"), (np.zeros(1, ">i4"), "dtype >i4"),
                      (np.float32(1), "has the type float32; it must have one value per index"), (np.ma.zeros(1), "masked"), (np.array(["a"]), "dtype <U1"),
                      (np.array(7), "is a single number")):
        with pytest.raises(evenkeel.InputError, match=why):
            client.put([0], {"rows": rows})
    assert client.status()["values"] == 0


def test_a_tensor_with_gradients_is_refused(client):
    torch = pytest.importorskip("torch")
    with pytest.raises(evenkeel.InputError, match="'rows': has a tensor whose gradients would be lost"):
        client.put([0], {"rows": torch.zeros(1, requires_grad=True)})


def test_values_can_be_passed_on_as_they_came(client):
    client.put([0, 1], {"a": [numbers((3,), "int8"), numbers((2,), "float64")]})
    client.put([8, 9], client.get([1, 0], ["a"]))
    assert same(client.get([9], ["a"])["a"][0], numbers((3,), "int8")) and same(client.get([8], ["a"])["a"][0], numbers((2,), "float64"))


def test_clear_counts_what_it_removes(client):
    client.put([0, 1, 2], {"a": np.zeros(3), "b": np.zeros(3)})
    assert client.clear([0], ["a"]) == 1 and client.clear([0, 1]) == 3 and client.status()["values"] == 2
    assert client.clear() == 2 and client.status()["bytes"] == 0


def test_save_and_load_bring_all_values_back(client, store):
    rows = [numbers((i, 2), "float32", i) for i in range(3)]
    client.put([4, 5, 6], {"a": rows})
    path = str(store.checkpoints / "first")
    assert client.save(path)["indexes"] == 3
    client.put([4, 7], {"a": np.zeros(2), "b": np.zeros(2)})
    assert client.load(path)["indexes"] == 3
    found = client.get([4, 5, 6], ["a"])["a"]
    assert all(same(one, other) for one, other in zip(found, rows)) and client.status()["values"] == 3
    with pytest.raises(evenkeel.InputError):
        client.load(str(store.checkpoints.parent / "elsewhere"))


def test_threads_share_a_client(client):
    def put_and_get(i):
        client.put([i], {"a": np.full((1, 1000), i)})
        return int(client.get([i], ["a"])["a"][0].sum())

    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        assert list(threads.map(put_and_get, range(64))) == [1000 * i for i in range(64)]


def test_a_token_is_needed_if_the_store_has_one(tmp_path):
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text("secret\n", encoding="utf-8")
    with Store("--dir", str(tmp_path / "values"), "--token-file", str(token)) as store:
        assert ValueClient(store.url, token="secret").put([0], {"a": np.zeros(1)}) == 8
        with pytest.raises(evenkeel.ConfigError):
            ValueClient(store.url, token="guess").put([0], {"a": np.zeros((1, 1000000))})


def frame(head, data):
    text = json.dumps(head).encode()
    return len(text).to_bytes(8, "little") + text + data


class Unreliable(http.server.BaseHTTPRequestHandler):
    """Sends prepared answers in order: each has a status, a body, and the number of its bytes that are sent."""

    protocol_version = "HTTP/1.1"
    responses: list = []
    bodies: list = []

    def do_POST(self):
        self.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        status, body, sent = self.responses.pop(0)
        self.send_response(status)
        self.send_header("Retry-After", "0")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:sent])
        self.close_connection = sent < len(body)

    def log_message(self, *words):
        pass


@pytest.fixture(name="unreliable")
def fixture_unreliable():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Unreliable)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Unreliable.responses, Unreliable.bodies = [], []
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_request_is_repeated_while_the_store_is_full_and_after_a_lost_connection(unreliable):
    whole = frame({"indexes": [0], "fields": {"a": {"dtype": "U8", "shape": [3]}}}, b"abc")
    Unreliable.responses = [(429, b'{"error": "full"}', 99), (200, whole, len(whole) - 1), (200, whole, 5), (200, whole, len(whole))]
    client = ValueClient(unreliable)
    assert client.get([0], ["a"])["a"][0].tobytes() == b"abc"
    Unreliable.responses = [(200, b'{"stored": 1, "bytes": 8}', 7), (200, b'{"stored": 1, "bytes": 8}', 99)]
    assert client.put([0], {"a": np.zeros(1)}) == 8
    assert len(Unreliable.bodies) == 6 and Unreliable.bodies[-1] == Unreliable.bodies[-2]


def test_an_outage_is_logged_once_and_a_full_store_is_not(unreliable, caplog):
    answer = (200, b'{"stored": 1, "bytes": 8}', 99)
    Unreliable.responses = [(503, b'{"error": "it is being stopped"}', 99)] * 2 + [answer, (429, b'{"error": "full"}', 99), answer]
    client = ValueClient(unreliable)
    client.put([0], {"a": np.zeros(1)})
    client.put([0], {"a": np.zeros(1)})
    assert [record.name for record in caplog.records] == ["evenkeel"] * 2
    assert caplog.messages[0] == f"{unreliable}: does not answer: it is being stopped. Trying again for up to 600 seconds"
    assert caplog.messages[1].startswith(f"{unreliable}: answers again, after 0.")


def test_a_store_that_stays_unreachable_is_an_error_with_the_limit_and_advice(caplog):
    with pytest.raises(evenkeel.IoError, match=r"gave up after 0.1 seconds: .*refused.*\. Start the server again, or raise patience"):
        ValueClient("http://127.0.0.1:1", patience=0.1).put([0], {"a": np.zeros(1)})
    assert len(caplog.records) == 1


def test_a_store_that_stays_full_is_an_error_with_its_own_advice(unreliable):
    Unreliable.responses = [(429, b'{"error": "store: is full. Clear values"}', 99)] * 99
    with pytest.raises(evenkeel.IoError, match=r"gave up after 0.1 seconds: store: is full. Clear values$"):
        ValueClient(unreliable, patience=0.1).put([0], {"a": np.zeros(1)})


def test_a_socket_takes_the_place_of_a_host_and_a_port(tmp_path):
    whole = frame({"indexes": [0], "fields": {"a": {"dtype": "U8", "shape": [3]}}}, b"abc")
    Unreliable.responses = [(200, whole, len(whole))]
    with socketserver.ThreadingUnixStreamServer(str(tmp_path / "socket"), Unreliable) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        assert ValueClient(f"unix:{tmp_path / 'socket'}").get([0], ["a"])["a"][0].tobytes() == b"abc"
        server.shutdown()
    with pytest.raises(evenkeel.ConfigError):
        ValueClient("unix:")


@pytest.mark.parametrize("head, data", [
    ({"indexes": [0], "fields": {"a": {"dtype": "U8", "shape": [4]}}}, b"abc"),
    ({"indexes": [0], "fields": {"a": {"dtype": "U8", "shape": [2]}}}, b"abc"),
    ({"indexes": [0], "fields": {"b": {"dtype": "U8", "shape": [3]}}}, b"abc"),
    ({"indexes": [0, 1], "fields": {"a": {"dtypes": ["U8", "U8"], "shapes": [[1], [2]]}}}, b"abc"),
], ids=["too few bytes", "too many bytes", "another field", "another number of values"])
def test_an_answer_to_a_different_request_is_never_returned(unreliable, head, data):
    whole = frame(head, data)
    Unreliable.responses = [(200, whole, len(whole))] * 9
    with pytest.raises(evenkeel.IoError, match="gave up after 0.1 seconds"):
        ValueClient(unreliable, patience=0.1).get([0], ["a"])


def test_it_needs_neither_the_c_library_nor_torch(tmp_path):
    package = pathlib.Path(evenkeel.__file__).resolve().parent
    shutil.copytree(package, tmp_path / "evenkeel", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    program = ("import sys; sys.modules['torch'] = None; import numpy as np, evenkeel.values as values\n"
               "values.ValueClient('http://127.0.0.1:1'); print(values._column('a', np.zeros(3), 3).size, 'evenkeel._c' in sys.modules)")
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path,
                         env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert run.stdout == "24 False\n"


@pytest.mark.parametrize("url", ["ftp://here", "http://127.0.0.1:99999", "http://[::1"])
def test_an_address_that_is_not_a_url_is_refused(url):
    with pytest.raises(evenkeel.ConfigError, match="url: is .* such as http://127.0.0.1:8710"):
        ValueClient(url)
