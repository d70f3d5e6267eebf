"""examples/python_trainer.py runs as its first lines describe."""

import pathlib
import re
import sys

import pytest

from jobs import processes

EXAMPLE = pathlib.Path(__file__).parents[3] / "examples" / "python_trainer.py"
JOB = "source: {kind: synthetic, samples: 48}\nbatch: {global_batch: 16}\n"


def losses_of(lines):
    return [float(re.search(r"loss (\S+),", line).group(1)) for line in lines]


def lines_of(over, ranks, config):
    done = processes([sys.executable, str(EXAMPLE), str(config)], ranks, over=over)
    return sorted(line for process in done for line in process.stdout.splitlines() if line)


@pytest.mark.skipif(not EXAMPLE.exists(), reason="the package is tested without the repository")
def test_it_trains_equally_over_mpi_and_over_torch(tmp_path):
    pytest.importorskip("torch")
    config = tmp_path / "job.yaml"
    config.write_text(JOB, encoding="utf-8")
    over_mpi = lines_of("mpi", 2, config)
    assert over_mpi == lines_of("torch", 2, config)
    assert len(over_mpi) == 6
    assert all(re.fullmatch(r"rank [01]: step [012], [1-9]\d* micro-batches, loss \d\.\d{4}, 8 samples back", line)
               for line in over_mpi)
    losses = losses_of(over_mpi)
    assert losses[:3] == losses[3:]  # both ranks train the same model
    assert losses[0] > losses[1] > losses[2]  # the model learns


@pytest.mark.skipif(not EXAMPLE.exists(), reason="the package is tested without the repository")
@pytest.mark.parametrize("mesh", ["tp: 2, pp: 2", "cp: 2"])
def test_its_losses_do_not_depend_on_the_mesh(tmp_path, mesh):
    pytest.importorskip("torch")
    config = tmp_path / "job.yaml"
    config.write_text(JOB, encoding="utf-8")
    alone = losses_of(lines_of("mpi", 1, config))
    config.write_text(JOB + f"mesh: {{{mesh}}}\nloss: {{dp_ranks: sum, micro_batches: mean}}\n", encoding="utf-8")
    ranks = losses_of(lines_of("mpi", 4, config))
    for step, loss in enumerate(alone):
        assert ranks[step::3] == pytest.approx([loss] * 4, abs=2e-4)
