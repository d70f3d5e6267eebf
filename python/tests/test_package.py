"""What the package promises to those who import it."""

import inspect
import pathlib
import subprocess
import sys

import pytest

import evenkeel


def test_the_version_is_that_of_the_library():
    root = pathlib.Path(__file__).resolve().parents[2]
    assert evenkeel.__version__ == (root / "VERSION").read_text(encoding="utf-8").strip()


def test_numpy_2_is_refused_where_its_arrays_would_be_misread():
    from evenkeel._arrays import require_known_arrays

    with pytest.raises(ImportError, match="built with pybind11 2.11, which misreads arrays of NumPy 2, and this is NumPy 2.0.1"):
        require_known_arrays("2.0.1", (2, 11))
    for numpy, pybind11 in (("1.26.4", (2, 10)), ("2.5.2", (2, 12))):
        require_known_arrays(numpy, pybind11)


def test_everything_named_is_there_and_documented():
    for name in evenkeel.__all__:
        assert getattr(evenkeel, name).__doc__, name


def test_every_field_kind_is_a_parameter_of_samples_and_documented():
    kinds = [name for name, _, _ in evenkeel._core.field_rules]
    assert len(set(kinds)) == len(kinds)
    parameters = [name for name in inspect.signature(evenkeel.Samples).parameters if name in kinds]
    assert parameters == kinds
    for kind in kinds:
        assert f"``{kind}``" in evenkeel.Samples.__doc__, kind


def test_importing_it_imports_neither_torch_nor_mpi_nor_omegaconf():
    program = "import sys, evenkeel; print([m for m in ('torch', 'mpi4py', 'omegaconf') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


# What a wheel has: the service once more, for where the one with MPI cannot be loaded. Here the same module stands for both.
WHEEL_WITHOUT_MPI = """
import importlib.machinery, importlib.util, pathlib, sys

folder = importlib.util.find_spec("evenkeel").submodule_search_locations[0]
(module,) = pathlib.Path(folder).glob("_service*.so")

class Wheel:
    def find_spec(self, name, path, target=None):
        if name == "evenkeel._without_mpi":
            return importlib.machinery.ModuleSpec(name, None, is_package=True)
        if name == "evenkeel._without_mpi._service":
            return importlib.util.spec_from_file_location(name, module)

sys.meta_path.insert(0, Wheel())
sys.modules["evenkeel._service"] = None
import evenkeel
"""


def said_by(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


def test_a_wheel_has_the_service_where_mpi_is_missing():
    program = WHEEL_WITHOUT_MPI + "print(len(evenkeel.Samples(ids=[1], prompt_lengths=[1], response_lengths=[1])))"
    assert said_by(program) == "1"


def test_a_wheel_that_found_no_mpi_refuses_its_communicators_and_says_why():
    pytest.importorskip("mpi4py")
    program = WHEEL_WITHOUT_MPI + """
from mpi4py import MPI
try:
    evenkeel.DataService(MPI.COMM_WORLD, {})
except evenkeel.MeshError as error:
    print(error)
"""
    said = said_by(program)
    assert "found no MPI when it was imported" in said and "_service" in said, said
    assert "Import mpi4py before evenkeel" in said
