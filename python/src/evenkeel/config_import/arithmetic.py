"""Resolvers for simple arithmetic, under the various names that projects use. Integers remain integers."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from functools import reduce
from typing import Any, Union

from evenkeel.config_import.values import Value, as_flag, as_number

Number = Union[int, float]

_NAMES: dict[Callable[..., Any], str] = {
    operator.mul: "mul multiply prod product times mul_int imul",
    operator.truediv: "div divide truediv",
    operator.floordiv: "int_div div_int idiv floordiv floor_div",
    operator.add: "add sum plus",
    operator.sub: "sub subtract minus",
    operator.mod: "mod",
    operator.pow: "pow",
    max: "max",
    min: "min",
}
_OPERATIONS = {name: operation for operation, names in _NAMES.items() for name in names.split()}
_SYMBOLS: dict[type, Callable[..., Any]] = {
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}


class _NoNumber(ValueError):
    pass


def _apply(operation: Callable[..., Any], left: Number, right: Number) -> Number:
    if operation is operator.pow and not (isinstance(right, int) and 0 <= right <= 62):
        raise _NoNumber  # sizes are written with small exponents
    result: Number = operation(left, right)
    if not math.isfinite(result) or (isinstance(result, int) and abs(result) >= 1 << 63):
        raise _NoNumber
    return result


def _number_of(value: Value) -> Number:
    number = as_number(value.data)
    if number is None:
        raise _NoNumber
    return number


def _evaluate(node: ast.expr) -> Number:
    """Evaluates a Python expression of numbers, + - * / // % **, int() and parentheses. Raises _NoNumber for any other."""
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_evaluate(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _SYMBOLS:
        return _apply(_SYMBOLS[type(node.op)], _evaluate(node.left), _evaluate(node.right))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "int":
        if len(node.args) == 1 and not node.keywords:
            return int(_evaluate(node.args[0]))
    raise _NoNumber


def is_known(name: str) -> bool:
    """Returns whether resolve() supports this resolver, for suitable arguments."""
    return name in _OPERATIONS or name in ("if", "ifelse", "eval")


def resolve(name: str, arguments: list[Value]) -> Value | None:
    """Returns the value of ${name:arguments}, or None for any other resolver or for arguments that it does not accept."""
    try:
        if name in ("if", "ifelse"):
            condition = as_flag(arguments[0]) if len(arguments) == 3 else None
            return None if condition is None else arguments[1 if condition else 2]
        if name == "eval" and len(arguments) == 1 and isinstance(arguments[0].data, str):
            number = _evaluate(ast.parse(arguments[0].data.strip(), mode="eval").body)
        elif name in _OPERATIONS and len(arguments) > 1:
            number = reduce(lambda a, b: _apply(_OPERATIONS[name], a, b), map(_number_of, arguments))
        else:
            return None
    except (ArithmeticError, RecursionError, SyntaxError, ValueError, MemoryError):
        return None
    return Value(repr(number))
