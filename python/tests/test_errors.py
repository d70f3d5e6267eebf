"""Errors of C++ become Python exceptions of their own classes, with the same text."""

import pickle

import pytest

import evenkeel
from evenkeel import _c

CLASSES = {
    "config": (evenkeel.ConfigError, ValueError),
    "input": (evenkeel.InputError, ValueError),
    "limit": (evenkeel.LimitError, ValueError),
    "mesh": (evenkeel.MeshError, ValueError),
    "io": (evenkeel.IoError, OSError),
    "mpi": (evenkeel.MpiError, RuntimeError),
}


@pytest.mark.parametrize("kind", CLASSES)
def test_every_kind_has_its_class_under_a_fitting_builtin(kind):
    own, builtin = CLASSES[kind]
    with pytest.raises(own) as caught:
        _c.raise_error(kind, "a place", "is wrong", "Mend it")
    assert caught.type is own
    assert issubclass(own, evenkeel.Error) and issubclass(own, builtin)
    assert caught.value.kind == kind


def test_an_error_has_the_text_of_cpp_and_its_parts():
    with pytest.raises(evenkeel.Error) as caught:
        _c.raise_error("limit", "sample 3", "has 9 tokens; the cap is 8", "Raise the cap")
    error = caught.value
    assert str(error) == "sample 3: has 9 tokens; the cap is 8. Raise the cap"
    assert (error.where, error.message, error.hint, error.rank) == (
        "sample 3", "has 9 tokens; the cap is 8", "Raise the cap", -1)


@pytest.mark.parametrize("kind", CLASSES)
def test_an_error_travels_between_processes_with_its_parts(kind):
    with pytest.raises(evenkeel.Error) as caught:
        _c.raise_error(kind, "a place", "is wrong", "Mend it")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert type(copy) is type(caught.value)
    assert str(copy) == str(caught.value)
    assert vars(copy) == vars(caught.value)


def test_an_unknown_kind_is_not_an_error_of_evenkeel():
    with pytest.raises(ValueError, match="oops is not a kind of error"):
        _c.raise_error("oops", "", "", "")
