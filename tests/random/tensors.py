"""Reads and writes files of samples without using Evenkeel."""

import array
import base64
import json
import math
import pathlib
import struct

# Maps dtypes of safetensors to type codes of array.
TYPES = {"BOOL": "B", "U8": "B", "I8": "b", "I16": "h", "U16": "H", "I32": "i", "U32": "I", "I64": "q", "F32": "f", "F64": "d"}


class Tensor:
    """A dtype, a shape, and the elements in row-major order."""

    def __init__(self, dtype: str, shape: list[int], values: list):
        self.dtype, self.shape, self.values = dtype, list(shape), values

    def __eq__(self, other) -> bool:
        return (self.dtype, self.shape, self.values) == (other.dtype, other.shape, other.values)

    def rows(self, dimensions: int = 1) -> list[list]:
        """Returns one list of elements per index of the first dimensions."""
        width = math.prod(self.shape[dimensions:])
        return [self.values[i * width:(i + 1) * width] for i in range(math.prod(self.shape[:dimensions]))]


def read_safetensors(path: pathlib.Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    content = path.read_bytes()
    start = 8 + struct.unpack_from("<Q", content)[0]
    header = json.loads(content[8:start])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        values = array.array(TYPES[entry["dtype"]])
        values.frombytes(content[start + begin:start + end])
        assert len(values) == math.prod(entry["shape"]), f"{path}: {name} has {len(values)} elements"
        tensors[name] = Tensor(entry["dtype"], entry["shape"], values.tolist())
    return tensors, metadata


def _bytes_of(tensor: Tensor) -> bytes:
    return array.array(TYPES[tensor.dtype], tensor.values).tobytes()


def write_safetensors(path: pathlib.Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    header, body = {"__metadata__": metadata} if metadata else {}, b""
    for name, tensor in tensors.items():
        part = _bytes_of(tensor)
        header[name] = {"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": [len(body), len(body) + len(part)]}
        body += part
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def _nested(row: list, trailing: tuple[int, ...]):
    """Returns a row in the form that JSON lines use."""
    if not trailing:
        return row[0]
    width = len(row) // trailing[0]
    return [_nested(row[i * width:(i + 1) * width], trailing[1:]) for i in range(trailing[0])]


def _runs(rows: list[list]) -> list[list[int]]:
    runs = []
    for [value] in rows:
        if runs and runs[-1][0] == value:
            runs[-1][1] += 1
        else:
            runs.append([value, 1])
    return runs


def _json_value(field, rows):
    if field.written == "text":
        return bytes(row[0] for row in rows).decode()
    if field.written == "bytes":
        return base64.b64encode(bytes(row[0] for row in rows)).decode()
    if field.written == "axes":
        return [[row[axis] for row in rows] for axis in range(field.trailing[0])]
    if field.written == "runs":
        return _runs(rows)
    values = [_nested([bool(x) for x in row] if field.dtype == "BOOL" else row, field.trailing) for row in rows]
    return values[0] if field.kind == "sample" else values


def write_jsonl(path: pathlib.Path, samples: list, fields: list) -> None:
    with path.open("w", encoding="utf-8") as file:
        for sample in samples:
            line = {"prompt_ids": sample.prompt, "response_ids": sample.response}
            if sample.uid is not None:
                line["uid"] = sample.uid
            line |= {field.name: _json_value(field, sample.values[field.name]) for field in fields}
            file.write(json.dumps(line) + "\n")


def write_lengths(path: pathlib.Path, samples: list) -> None:
    lines = [f"{len(sample.prompt)},{len(sample.response)}" for sample in samples]
    path.write_text("\n".join(["prompt_length,response_length", *lines]) + "\n", encoding="utf-8")


def _offsets(lengths: list[int]) -> list[int]:
    sums = [0]
    for length in lengths:
        sums.append(sums[-1] + length)
    return sums


def ragged_tensors(samples: list, fields: list) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Returns tensors of concatenated values, and metadata with the kinds of fields."""
    tokens = [token for sample in samples for token in sample.tokens]
    tensors = {"input_ids": Tensor("I64", [len(tokens)], tokens),
               "offsets": Tensor("I64", [len(samples) + 1], _offsets([len(s.tokens) for s in samples])),
               "prompt_lengths": Tensor("I32", [len(samples)], [len(s.prompt) for s in samples])}
    if all(isinstance(sample.uid, int) for sample in samples):
        tensors["uid"] = Tensor("I64", [len(samples)], [sample.uid for sample in samples])
    for field in fields:
        rows = [row for sample in samples for row in sample.values[field.name]]
        tensors[field.name] = Tensor(field.dtype, [len(rows), *field.trailing], [x for row in rows for x in row])
        if field.is_counted:
            counts = [len(sample.values[field.name]) for sample in samples]
            tensors[field.name + "_offsets"] = Tensor("I64", [len(counts) + 1], _offsets(counts))
    kinds = {field.name: field.kind for field in fields}
    return tensors, {"evenkeel_fields": json.dumps(kinds)} if kinds else {}


def padded_tensors(samples: list, fields: list) -> dict[str, Tensor]:
    """Returns tensors with one row per sample. Prompts end, and responses begin, in the same column; a mask separates tokens
    from padding."""
    left, right = max(len(s.prompt) for s in samples), max(len(s.response) for s in samples)
    count, width = len(samples), left + right

    def columns(sample, rows: list, empty, kind: str = "token") -> list:
        if kind == "response_token":
            return rows + [empty] * (right - len(rows))
        return [empty] * (left - len(sample.prompt)) + rows + [empty] * (right - len(sample.response))
    tensors = {
        "input_ids": Tensor("I64", [count, width], [x for s in samples for x in columns(s, s.tokens, 9)]),
        "attention_mask": Tensor("BOOL", [count, width], [x for s in samples for x in columns(s, [1] * len(s.tokens), 0)]),
        "responses": Tensor("I64", [count, right], [0] * (count * right))}
    if all(isinstance(sample.uid, int) for sample in samples):
        tensors["uid"] = Tensor("I64", [count], [sample.uid for sample in samples])
    for field in fields:
        empty = [0] * math.prod(field.trailing)
        rows = [row for s in samples for row in (s.values[field.name] if field.kind == "sample" else
                                                 columns(s, s.values[field.name], empty, field.kind))]
        wide = {"token": [width], "response_token": [right], "sample": []}[field.kind]
        tensors[field.name] = Tensor(field.dtype, [count, *wide, *field.trailing], [x for row in rows for x in row])
    return tensors


def write_megatron(path: pathlib.Path, samples: list) -> None:
    """Writes PATH.bin and PATH.idx with one document per sample."""
    lengths = [len(sample.tokens) for sample in samples]
    path.with_name(path.name + ".bin").write_bytes(
        array.array("i", [token for sample in samples for token in sample.tokens]).tobytes())
    starts = [4 * start for start in _offsets(lengths)[:-1]]
    index = b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 4, len(lengths), len(lengths) + 1)
    index += array.array("i", lengths).tobytes() + array.array("q", starts).tobytes()
    index += array.array("q", range(len(lengths) + 1)).tobytes()
    path.with_name(path.name + ".idx").write_bytes(index)
