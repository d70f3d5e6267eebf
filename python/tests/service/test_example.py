"""examples/python_trainer.py, as its first lines say."""

import pathlib
import re
import sys

import pytest

from jobs import processes

EXAMPLE = pathlib.Path(__file__).parents[3] / "examples" / "python_trainer.py"
JOB = "source: {kind: synthetic, samples: 48}\nbatch: {global_batch: 16}\n"


def lines_of(over, ranks, config):
    done = processes([sys.executable, str(EXAMPLE), str(config)], ranks, over=over)
    return sorted(line for process in done for line in process.stdout.splitlines() if line)


@pytest.mark.skipif(not EXAMPLE.exists(), reason="the package is tested without the repository")
def test_it_trains_alike_over_mpi_and_over_torch(tmp_path):
    pytest.importorskip("torch")
    config = tmp_path / "job.yaml"
    config.write_text(JOB, encoding="utf-8")
    over_mpi = lines_of("mpi", 2, config)
    assert over_mpi == lines_of("torch", 2, config)
    assert len(over_mpi) == 6
    assert all(re.fullmatch(r"rank [01]: step [012], [1-9]\d* micro-batches, loss \d\.\d{4}, 8 samples back", line)
               for line in over_mpi)
    losses = [re.search(r"loss (\S+),", line).group(1) for line in over_mpi]
    assert losses[:3] == losses[3:]  # one model on both ranks
    assert float(losses[0]) > float(losses[1]) > float(losses[2])  # which learns
