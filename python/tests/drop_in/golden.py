"""Reads the vectors of tests/golden, and compares results with them."""

import json
import pathlib

import torch

import evenkeel

FOLDER = pathlib.Path(__file__).resolve().parents[3] / "tests" / "golden"


def families():
    return sorted(file.stem for file in FOLDER.glob("*.json"))


def cases_of(family):
    return json.loads((FOLDER / f"{family}.json").read_text(encoding="utf-8"))["cases"]


def is_error(value):
    return isinstance(value, dict) and set(value) == {"error"}


def result_of(compute):
    """Returns the result of a call, or the Evenkeel error that it raises."""
    try:
        return plain(compute())
    except evenkeel.Error as error:
        return {"error": str(error)}


def plain(value):
    """Converts tensors to nested lists."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, (list, tuple)) else value


def difference(expected, actual, exact_errors, path="result"):
    """Returns a description of the difference, or None. Compares integers exactly, floats to 1e-5, and only the expected keys
    of a dict. An expected error must be an error; unless `exact_errors`, any result is accepted instead."""
    if is_error(expected):
        has_one = isinstance(actual, dict) and "error" in actual
        return None if has_one or not exact_errors else f"{path}: no error, but {actual}"
    if is_error(actual):
        return f"{path}: {actual['error']}"
    if isinstance(expected, dict):
        for key, value in expected.items():
            if key == "error" and (key in actual or not exact_errors):
                continue
            if key not in actual:
                return f"{path}: has no {key}"
            found = difference(value, actual[key], exact_errors, f"{path}.{key}")
            if found:
                return found
        return None
    if isinstance(expected, list):
        if not isinstance(actual, list) or len(actual) != len(expected):
            return f"{path}: {actual} where {expected} is expected"
        parts = (difference(e, a, exact_errors, f"{path}[{i}]") for i, (e, a) in enumerate(zip(expected, actual)))
        return next((part for part in parts if part), None)
    if isinstance(expected, float) or isinstance(actual, float):
        same = actual is not None and abs(expected - actual) <= 1e-5 * max(1.0, abs(expected))
    else:
        same = expected == actual
    return None if same else f"{path}: {actual} where {expected} is expected"
