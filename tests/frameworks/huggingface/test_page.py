"""The job of docs/huggingface.md runs as shown, from text to a trained model, on two processes."""

import json
import pathlib
import re
import sys

import pytest
from transformers import AutoModelForCausalLM

import jobs
import train

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture
def script(tmp_path):
    page = (ROOT / "docs/huggingface.md").read_text(encoding="utf-8")
    text = re.search(r"<!-- check: file: sft.py -->\n```python\n(.*?)```", page, re.DOTALL).group(1)
    (tmp_path / "sft.py").write_text(text.replace("num_train_epochs=1)", "num_train_epochs=1, use_cpu=True, bf16=False)"))
    return tmp_path / "sft.py"


def test_the_job_of_the_page_trains(tmp_path, script):
    train.make_model().save_pretrained(tmp_path / "model")
    train.tokenizer().save_pretrained(tmp_path / "model")
    lines = [{"prompt": "w3 w4 ", "completion": " ".join(["w5"] * (3 + index % 40))} for index in range(100)]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    command = [sys.executable, script, tmp_path / "model", tmp_path / "data.jsonl", tmp_path / "output"]
    jobs.processes([str(part) for part in command], 2, over="torch", timeout=600)
    before, after = (AutoModelForCausalLM.from_pretrained(path) for path in (tmp_path / "model", tmp_path / "output/checkpoint-2"))
    assert any(not one.equal(other) for one, other in zip(before.parameters(), after.parameters()))
