"""Programs in C and Fortran plan and pack as Python does, without MPI."""

import os
import pathlib
import shutil
import subprocess

import numpy as np
import pytest

import evenkeel

PROGRAM = os.environ.get("EVENKEEL_C_PLANNER")  # examples/c_planner.c of the same build


def python_output():
    """Returns the output of examples/c_planner.c."""
    lengths = [5, 3, 4, 2, 7, 1]
    plan = evenkeel.plan(lengths, mesh={"dp": 2, "cp": 2}, micro_batch={"max_tokens": 16})
    lines = [f"DP rank {rank.dp_rank}, {m.tokens} tokens, samples {' '.join(map(str, m.samples))}"
             for rank in plan for m in rank.micro_batches]
    first = plan[0][0]
    tokens = np.concatenate([100 * s + np.arange(lengths[s], dtype=np.int32) for s in first.samples]).astype(np.int32)
    rows = evenkeel.pack(first.layout(), tokens, pad=-1)
    return [*lines, f"rows {' '.join(map(str, rows))}"]


@pytest.mark.skipif(PROGRAM is None or not pathlib.Path(PROGRAM).is_file(), reason="needs the program of a build")
def test_c_plans_and_packs_as_python_does():
    run = subprocess.run([PROGRAM], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == python_output()


# Debian's libopenmpi-dev installs one of these.
FORTRAN = next(filter(None, map(shutil.which, ("gfortran", "gfortran-14", "gfortran-12"))), None)


@pytest.mark.skipif(FORTRAN is None, reason="needs gfortran")
def test_fortran_plans_as_python_does(tmp_path):
    source = pathlib.Path(__file__).resolve().parents[2] / "examples" / "fortran_planner.f90"
    library = str(pathlib.Path(evenkeel.__file__).with_name("libevenkeel.so").resolve())
    # The package's library does not have the file name that programs look for, and the one in a wheel loads others from its
    # folder.
    subprocess.run([FORTRAN, "-Wall", "-Werror", source, library, "-Wl,--unresolved-symbols=ignore-in-shared-libs", "-o", "planner"],
                   check=True, cwd=tmp_path)
    run = subprocess.run([tmp_path / "planner"], capture_output=True, text=True, check=True, env={**os.environ, "LD_PRELOAD": library})
    assert run.stdout.splitlines() == [line for line in python_output() if line.startswith("DP rank")]
