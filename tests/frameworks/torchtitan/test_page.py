"""The job of docs/torchtitan.md is configured as on the command line, and its loader makes rows of its texts."""

import json
import pathlib
import re

from torchtitan.config import ConfigManager

import train

ROOT = pathlib.Path(__file__).resolve().parents[3]


def test_the_job_of_the_page_is_configured_and_makes_rows(tmp_path, monkeypatch):
    page = (ROOT / "docs/torchtitan.md").read_text(encoding="utf-8")
    job, command = re.search(r"file: my_job.py -->\n```python\n(.*?)```.*?(--module .*?)\n", page, re.DOTALL).groups()
    (tmp_path / "my_job.py").write_text(job)
    texts = [" ".join(map(str, range(3, 3 + length))) for length in (30, 9, 50, 20)]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    config = ConfigManager().parse_args([*command.split(), "--training.seq_len", "64", "--dataloader.no-shuffle"])
    loader = config.dataloader.build(dp_world_size=1, dp_rank=0, tokenizer=train.Tokenizer(None), seq_len=config.training.seq_len, local_batch_size=2)
    batch, labels = next(iter(loader))
    assert batch["input"].shape == labels.shape == (2, 64)
    assert (labels != train.IGNORE_INDEX).sum() == sum(len(text.split()) - 1 for text in texts)
