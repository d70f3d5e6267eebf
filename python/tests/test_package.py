"""What the package promises to those who import it."""

import pathlib
import subprocess
import sys

import evenkeel


def test_the_version_is_that_of_the_library():
    root = pathlib.Path(__file__).resolve().parents[2]
    assert evenkeel.__version__ == (root / "VERSION").read_text(encoding="utf-8").strip()


def test_everything_named_is_there_and_documented():
    for name in evenkeel.__all__:
        assert getattr(evenkeel, name).__doc__, name


def test_importing_it_imports_neither_torch_nor_mpi_nor_omegaconf():
    program = "import sys, evenkeel; print([m for m in ('torch', 'mpi4py', 'omegaconf') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
