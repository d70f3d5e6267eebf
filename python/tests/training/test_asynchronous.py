"""A GRPO loop whose responses other processes generate (examples/training/asynchronous.py)."""

import pathlib
import signal
import subprocess
import sys
import time

import pytest

from buffers import Buffer

EXAMPLE = pathlib.Path(__file__).parents[3] / "examples" / "training" / "asynchronous.py"
RANKS = 2

pytestmark = pytest.mark.skipif(not EXAMPLE.exists(), reason="the package is tested without the repository")


def example(*arguments, ranks=None):
    pytest.importorskip("torch")
    launcher = ["mpirun", "--oversubscribe", "--allow-run-as-root", "-n", str(ranks)] if ranks else []
    return subprocess.Popen([*launcher, sys.executable, EXAMPLE, *map(str, arguments)], stdout=subprocess.PIPE, text=True)


def losses_of(trainer):
    out, _ = trainer.communicate(timeout=300)
    assert trainer.returncode == 0, out
    return [line for line in out.splitlines() if line.startswith("step ")]


def end(process):
    process.send_signal(signal.SIGKILL)
    process.wait()


def test_at_staleness_0_it_trains_as_the_synchronous_loop_does_bit_for_bit(tmp_path):
    with Buffer("--store", "memory", "--group-size", "4", "--max-staleness", "0", "--on-stale", "wait") as buffer:
        shared = ["--buffer", buffer.url, "--weights", tmp_path / "weights.pt"]
        generator = example("generate", *shared)
        try:
            apart = losses_of(example("train", *shared, "--steps", 4, ranks=RANKS))
        finally:
            end(generator)
    together = losses_of(example("train", "--synchronous", "--steps", 4, ranks=RANKS))
    assert len(together) == 4 and apart == together


def test_at_staleness_1_it_trains_on_while_a_generator_and_the_buffer_are_killed(tmp_path):
    options = ["--dir", tmp_path / "buffer", "--group-size", "4", "--max-staleness", "1", "--on-stale", "wait"]
    buffer = Buffer(*options)
    shared = ["--buffer", buffer.url, "--weights", tmp_path / "weights.pt"]
    generator = example("generate", *shared)
    trainer = example("train", *shared, "--steps", 8, ranks=RANKS)
    try:
        for _ in range(2):
            trainer.stdout.readline()
        end(generator)
        generator = example("generate", *shared, "--first", 1000)
        trainer.stdout.readline()
        end(buffer.process)
        time.sleep(0.5)  # while nobody answers
        buffer = Buffer(*options, listen=buffer.url.removeprefix("http://"))
        assert len(losses_of(trainer)) == 8 - 3
        counts = buffer.status()["samples"]
        assert counts["trained"] + counts["formed"] >= 8 * 12 and counts["dropped"]["stale"] == 0
    finally:
        end(generator)
        end(trainer)
        end(buffer.process)
