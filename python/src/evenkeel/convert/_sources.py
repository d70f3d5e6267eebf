"""Reads rows of a dataset in any supported form: rows, columns, pyarrow tables, or Parquet, Arrow and JSON lines files."""

from __future__ import annotations

import glob
import gzip
import json
import os
import pathlib
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn

from evenkeel import _c
from evenkeel._text import counted


def rows_of(source: Any) -> Iterator[Any]:
    if isinstance(source, (str, os.PathLike)):
        source = files_of(os.fspath(source))
    if isinstance(source, (list, tuple)) and source and all(isinstance(each, (str, os.PathLike)) for each in source):
        for name in source:
            yield from _rows_of_file(os.fspath(name))
    elif hasattr(source, "to_batches"):  # a table of pyarrow
        for batch in source.to_batches():
            yield from batch.to_pylist()
    elif isinstance(source, Mapping):
        yield from _rows_of_columns(source)
    elif isinstance(source, Iterable):
        yield from source
    else:
        raise TypeError(f"a dataset is rows, columns or names of files, but this one has the type {type(source).__name__}")


def _rows_of_columns(columns: Mapping[Any, Any]) -> Iterator[Any]:
    sizes = {name: len(column) for name, column in columns.items()}
    firsts = [next(iter(column)) for column in columns.values() if len(column)]
    if firsts and all(isinstance(first, Mapping) for first in firsts):
        _c.raise_error("input", "dataset", f"is a mapping of splits ({', '.join(map(str, columns))}), not of columns",
                       f"Pass one split: dataset[{next(iter(columns))!r}]")
    for name in columns:
        if sizes[name] != max(sizes.values()):
            _c.raise_error("input", f"column {name!r}", f"has {counted(sizes[name], 'row')}; another column has {max(sizes.values())}",
                           "Give all columns the same number of rows")
    for values in zip(*columns.values()):
        yield dict(zip(columns, values))


def files_of(name: str) -> list[str]:
    found = [name] if os.path.exists(name) else sorted(glob.glob(name), key=os.fsencode)
    if not found:
        _c.raise_error("io", name, "names no file", "Check the name or the pattern")
    return found


def _rows_of_file(name: str) -> Iterator[Any]:
    if name.endswith((".jsonl", ".jsonl.gz")):
        yield from _rows_of_lines(name)
        return
    kind = pathlib.Path(name).suffix
    if kind not in (".parquet", ".arrow", ".feather", ".ipc"):
        _c.raise_error("input", name, "is not a .parquet, .arrow, .feather, .ipc, .jsonl or .jsonl.gz file",
                          "For tensors, use evenkeel convert, which reads safetensors; NumPy files become safetensors first: "
                          "python3 -m evenkeel.convert INPUT.npz OUTPUT.safetensors")
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(f"{name}: reading this file needs pyarrow, which is not installed ({error}). Install it: pip install "
                          "pyarrow (Debian has no package of it)") from error
    try:
        if kind == ".parquet":
            batches = pyarrow.parquet.ParquetFile(name).iter_batches(batch_size=1024)
        else:
            mapped = pyarrow.memory_map(name)
            try:
                whole = pyarrow.ipc.open_file(mapped)
                batches = (whole.get_batch(i) for i in range(whole.num_record_batches))
            except pyarrow.ArrowInvalid:  # a stream, the format in which Hugging Face stores datasets
                batches = pyarrow.ipc.open_stream(pyarrow.memory_map(name))
        for batch in batches:
            yield from batch.to_pylist()
    except (OSError, pyarrow.ArrowException) as error:
        _c.raise_error("io", name, f"cannot be read: {error}")


def _rows_of_lines(name: str) -> Iterator[Any]:
    """Reads rows from JSON lines, such as pretokenized input_ids and labels, or chats."""
    def refuse_constant(word: str) -> NoReturn:
        raise ValueError(f"holds {word}, which JSON cannot represent")

    try:
        is_packed = name.endswith(".gz")
        with gzip.open(name, "rt", encoding="utf-8-sig") if is_packed else open(name, encoding="utf-8-sig") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                try:
                    yield json.loads(line, parse_constant=refuse_constant)
                except ValueError as error:
                    _c.raise_error("input", f"{name}:{number}", f"is not valid JSON: {error}")
    except UnicodeDecodeError as error:
        _c.raise_error("input", name, f"is not UTF-8: {error}")
    except (OSError, EOFError, zlib.error) as error:
        _c.raise_error("io", name, f"cannot be read: {error}")
