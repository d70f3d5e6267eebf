#!/usr/bin/env python3
"""The recipe of docs/rollouts.md that reads a dump also reads dumps of jobs other than the page's.

Usage: test_recipes.py BUILD_DIR
"""

import json
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

import pages
import session

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop(1)).resolve() if __name__ == "__main__" else ROOT / "build" / "release"


def write_rollouts(path: pathlib.Path) -> None:
    """Writes short rollouts. Some prompts, responses and lines are empty."""
    drawn = random.Random(5)
    with path.open("w", encoding="utf-8") as file:
        for index in range(60):
            prompt = [drawn.randrange(1000) for _ in range(drawn.choice((0, 1, 2, 30)))]
            response = [drawn.randrange(1000) for _ in range(drawn.choice((0, 1, 3, 70)))]
            advantages = [drawn.uniform(-1, 1) for _ in response]
            rollout = {"prompt_ids": prompt, "response_ids": response, "reward": index / 8, "advantages": advantages}
            file.write(json.dumps(rollout) + ("\n\n" if index % 7 == 0 else "\n"))


class ReadDump(unittest.TestCase):
    def read_back(self, ranks: int, *settings: str, cp_layout: str = "zigzag") -> str:
        recipe = next(b for b in pages.blocks_of(ROOT, "docs/rollouts.md") if b.detail == "read_dump.py")
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "read_dump.py").write_text("\n".join(recipe.lines), encoding="utf-8")
            (folder / "job.yaml").write_text("source: {kind: jsonl, path: some.jsonl}\n", encoding="utf-8")
            write_rollouts(folder / "some.jsonl")
            run = f"mpirun -n {ranks} '{BUILD}/bin/evenkeel' run job.yaml --dump dump"
            job = f"source '{ROOT}/launch/environment.sh'; {run}"
            job += "".join(f" --set {setting}" for setting in ("batch.global_batch=20", *settings))
            subprocess.run(["bash", "-c", job], cwd=folder, check=True, capture_output=True, timeout=120)
            read = [session.python_with_numpy(), "read_dump.py", "dump", "some.jsonl", cp_layout]
            return subprocess.run(read, cwd=folder, check=True, capture_output=True, text=True, timeout=120).stdout

    def test_without_context_parallelism(self) -> None:
        self.assertIn("60 samples", self.read_back(3))

    def test_zigzag_over_four_ranks(self) -> None:
        self.assertIn("60 samples", self.read_back(4, "mesh.cp=4"))

    def test_contiguous_chunks(self) -> None:
        self.assertIn("60 samples", self.read_back(4, "mesh.cp=2", "pack.cp_layout=contiguous", cp_layout="contiguous"))

    def test_pipeline_stages_and_tensor_parallel_ranks(self) -> None:
        self.assertIn("60 samples", self.read_back(8, "mesh.pp=2", "mesh.tp=2", "mesh.cp=2"))

    def test_fixed_micro_batches(self) -> None:
        self.assertIn("60 samples", self.read_back(2, "mesh.cp=2", "micro_batch.mode=fixed", "micro_batch.size=3"))


if __name__ == "__main__":
    unittest.main()
