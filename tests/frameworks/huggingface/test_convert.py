"""Parquet and Arrow files, and data sets of Hugging Face, become JSON lines. Debian has no pyarrow, so python/tests cannot test this."""

import json

import datasets
import pyarrow
import pytest
from pyarrow import parquet

from evenkeel import convert
from evenkeel.convert.__main__ import main

ROWS = {"input_ids": [[1, 2], [3, 4, 5]], "assistant_masks": [[0, 1], [0, 0, 1]], "source": ["a", "b"]}


@pytest.fixture
def expected(tmp_path):
    convert.to_jsonl([dict(zip(ROWS, row)) for row in zip(*ROWS.values())], tmp_path / "expected.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "expected.jsonl").read_text().splitlines()]
    assert [line["prompt_ids"] for line in lines] == [[1], [3, 4]]
    return lines


@pytest.mark.parametrize("rows", [pyarrow.table(ROWS), datasets.Dataset.from_dict(ROWS)], ids=["table", "data set"])
def test_rows_in_memory_are_read(tmp_path, expected, rows):
    convert.to_jsonl(rows, tmp_path / "out.jsonl")
    assert [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()] == expected


def test_files_are_read(tmp_path, expected, capsys):
    table = pyarrow.table(ROWS)
    parquet.write_table(table, tmp_path / "one.parquet")
    for name, writer in (("two.arrow", pyarrow.ipc.new_stream), ("three.feather", pyarrow.ipc.new_file)):
        with writer(tmp_path / name, table.schema) as file:
            file.write_table(table)
    datasets.Dataset.from_dict(ROWS).to_parquet(tmp_path / "four.parquet")
    out = tmp_path / "files.jsonl"
    assert main([str(tmp_path / name) for name in ("one.parquet", "two.arrow", "three.feather", "four.parquet")] + [str(out)]) == 0
    assert [json.loads(line) for line in out.read_text().splitlines()] == expected * 4
    assert '"source": {"read_as": "text"}' in capsys.readouterr().err
