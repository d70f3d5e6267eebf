"""Tests what the package promises to programs that import it."""

import inspect
import pathlib
import subprocess
import sys

import pytest

import evenkeel
from evenkeel import _fields, _prototypes


def test_the_version_is_that_of_the_library():
    root = pathlib.Path(__file__).resolve().parents[2]
    assert evenkeel.__version__ == (root / "VERSION").read_text(encoding="utf-8").strip()


def test_everything_named_is_there_and_documented():
    for name in evenkeel.__all__:
        assert getattr(evenkeel, name).__doc__, name


def test_every_field_kind_is_a_parameter_of_samples_and_documented():
    kinds = list(_fields.RULES)
    words = [kind.upper() for kind in kinds]
    assert [rule.value for rule in _fields.RULES.values()] == [getattr(_prototypes, f"EVENKEEL_{word}") for word in words]
    parameters = [name for name in inspect.signature(evenkeel.Samples).parameters if name in kinds]
    assert parameters == kinds
    for kind in kinds:
        assert f"``{kind}``" in evenkeel.Samples.__doc__, kind


def test_importing_it_imports_neither_torch_nor_mpi_nor_omegaconf():
    program = "import sys, evenkeel; print([m for m in ('torch', 'mpi4py', 'omegaconf') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


# A wheel contains the service twice, with and without MPI; the second is used if the first cannot be loaded. Here the same
# library serves as both.
WHEEL_WITHOUT_MPI = """
import ctypes

class Wheel(ctypes.CDLL):
    def __init__(self, path, *arguments):  # mpi4py loads libraries, too
        if str(path).endswith("/evenkeel/libevenkeel_mpi.so"):
            raise OSError("libmpi.so.40: cannot open shared object file")
        super().__init__(path and path.replace("_without_mpi/", ""), *arguments)

ctypes.CDLL = Wheel
import evenkeel
"""


def output_of(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


def test_a_wheel_has_the_service_without_mpi():
    program = WHEEL_WITHOUT_MPI + "print(len(evenkeel.Samples(ids=[1], prompt_lengths=[1], response_lengths=[1])))"
    assert output_of(program) == "1"


def test_a_wheel_without_mpi_refuses_mpi_communicators_with_the_reason():
    pytest.importorskip("mpi4py")
    program = WHEEL_WITHOUT_MPI + """
from mpi4py import MPI
try:
    evenkeel.DataService(MPI.COMM_WORLD, {})
except evenkeel.MeshError as error:
    print(error)
"""
    said = output_of(program)
    assert "found no MPI when it loaded its library (libmpi.so.40: cannot open" in said, said
