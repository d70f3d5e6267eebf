"""The stubs say what is there: every public name of the extension module, with its parameters."""

import ast
import inspect
import pathlib
import re

import pytest

import evenkeel
from evenkeel import _core

STUBS = ast.parse(pathlib.Path(evenkeel.__file__).with_name("_core.pyi").read_text(encoding="utf-8"))
ONLY_STUBS = {"Quality"}  # types of what methods return


def public(names):
    return {name for name in names if not name.startswith("_")}


def stubbed_classes():
    return {node.name: node for node in STUBS.body if isinstance(node, ast.ClassDef) and node.name not in ONLY_STUBS}


def stubbed_functions(body):
    return {node.name: node for node in body if isinstance(node, ast.FunctionDef)}


def stubbed_values():
    return {node.target.id for node in STUBS.body if isinstance(node, ast.AnnAssign)}


def parameters_of_stub(node):
    arguments = node.args
    names = [argument.arg for argument in (*arguments.args, *arguments.kwonlyargs)]
    return [name for name in names if name != "self"]


def parameters_of(function):
    """What pybind11's docstring lists: name(self: T, cost: int = 3) -> U."""
    words = re.match(r"\w+\((.*)\)", function.__doc__.splitlines()[0]).group(1)
    names = re.findall(r"(?:^|, )\**(\w+):", words)
    return [name for name in names if name != "self"]


def test_they_have_every_name_of_the_module_and_no_other():
    names = public(dir(_core))
    assert names == public(set(stubbed_classes()) | set(stubbed_functions(STUBS.body)) | stubbed_values())


@pytest.mark.parametrize("name", sorted(stubbed_classes()))
def test_they_have_every_member_of_a_class(name):
    members = {node.name for node in stubbed_classes()[name].body if isinstance(node, ast.FunctionDef)}
    assert public(members) == public(dir(getattr(_core, name)))


@pytest.mark.parametrize("name", sorted(stubbed_functions(STUBS.body)))
def test_they_have_a_functions_parameters(name):
    assert parameters_of_stub(stubbed_functions(STUBS.body)[name]) == parameters_of(getattr(_core, name))


@pytest.mark.parametrize("name", sorted(stubbed_classes()))
def test_they_have_the_parameters_of_methods(name):
    for method, node in stubbed_functions(stubbed_classes()[name].body).items():
        if method in ("__iter__", "__len__"):
            continue
        there = getattr(getattr(_core, name), method)
        if isinstance(there, property):
            continue
        if inspect.isroutine(there) and "Overloaded" not in (there.__doc__ or ""):
            assert parameters_of_stub(node) == parameters_of(there), method


def test_every_public_function_is_typed_and_documented():
    for module in (evenkeel.balance, evenkeel.packing, evenkeel.padding, evenkeel.planning, evenkeel.prefix,
                   evenkeel.tensors):
        for name in module.__all__:
            thing = getattr(module, name)
            assert thing.__doc__, name
            if inspect.isfunction(thing):
                untyped = [p.name for p in inspect.signature(thing).parameters.values() if p.annotation is p.empty]
                assert untyped == [], name


def test_every_property_of_a_class_that_users_see_is_explained_or_plain():
    plain = {"size", "layout", "cp", "linear", "quadratic", "tokens", "cost", "dp_rank", "empty", "aligned_tokens", "step",
             "num_samples", "num_tokens", "groups", "tree", "segments", "num_suffixes"}
    for name in stubbed_classes():
        if name == "Config":
            continue  # its Python class is what users see
        for member, value in vars(getattr(_core, name)).items():
            if isinstance(value, property) and member not in plain:
                assert value.__doc__, f"{name}.{member}"
