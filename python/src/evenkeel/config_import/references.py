"""Follows OmegaConf's references in a configuration.

OmegaConf parses them. They are resolved here because each value records how it was found, and because a value that a
missing file may specify must not be replaced by a default.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from omegaconf.errors import GrammarParseError, InterpolationResolutionError
from omegaconf.grammar_parser import parse as parse_by_grammar
from omegaconf.grammar_visitor import GrammarVisitor

from evenkeel.config_import import arithmetic
from evenkeel.config_import.values import Lost, Path, Value, dotted, refuse, starts_with

MOST_WORK = 200_000
DEEPEST = 64
MANDATORY = "is ??? there: a value that must be set, for example on the command line"


@dataclass
class LostPart:
    """A part of a configuration that a missing file would fill."""

    package: Path  # where its keys would be
    entry: str  # as written in its defaults list: "actor@actor_rollout_ref.actor: dp_actor"
    file: str  # "actor/dp_actor.yaml"


def has_reference(value: Value) -> bool:
    return isinstance(value.data, str) and "${" in value.data


def value_of(data: Any, written: str = "") -> Value:
    """Converts a text parsed by OmegaConf to a value; `written` is the text."""
    if isinstance(data, Value):
        return data
    if isinstance(data, list):
        return Value([value_of(item) for item in data])
    if isinstance(data, dict):
        return Value({str(key): value_of(item) for key, item in data.items()})
    if data is None or isinstance(data, str):
        return Value(data, quoted=written[:1] in ("'", '"'))
    return Value(written.strip() or (str(data).lower() if isinstance(data, bool) else str(data)))


def _parse(text: str, rule: str, mode: str) -> Any:
    try:
        return parse_by_grammar(text, parser_rule=rule, lexer_mode=mode)
    except RecursionError:
        raise
    except Exception as error:  # a bracket closed at the very start causes ANTLR's own "Empty Stack" error
        raise GrammarParseError(str(error)) from None


class _Visitor(GrammarVisitor):
    """OmegaConf's visitor, which also records what the parts of a text refer to."""

    def __init__(self, on_key: Any, on_resolver: Any) -> None:
        super().__init__(on_key, on_resolver, None)
        self.parts: list[str] = []

    def visitInterpolation(self, ctx: Any) -> Any:  # noqa: N802
        value = super().visitInterpolation(ctx)
        self.parts.insert(0, getattr(value, "via", ""))
        return value

    def visitConfigKey(self, ctx: Any) -> str:  # noqa: N802
        child = ctx.getChild(0)
        return str(child.symbol.text if hasattr(child, "symbol") else self.visitInterpolation(child))

    def visitQuotedValue(self, ctx: Any) -> Any:  # noqa: N802
        value = value_of(self.visit(ctx.getChild(1))) if ctx.getChildCount() == 3 else Value("")
        return replace(value, quoted=True)

    def _unescape(self, seq: Any) -> Any:
        around, self.parts = self.parts, []
        text = super()._unescape(seq)
        value = Value(text, via=", ".join(part for part in self.parts if part))
        self.parts = around
        return value


def literal(text: str, place: str) -> Value:
    """Parses a list or a map as written on a command line. Its references are kept, and followed once it is in place."""
    visitor = _Visitor(
        lambda key, memo: Value(f"${{{key}}}"),
        lambda name, args, args_str: Value(f"${{{name}:{','.join(args_str)}}}"),
    )
    try:
        return value_of(visitor.visit(_parse(text, "singleElement", "VALUE_MODE")))
    except GrammarParseError as error:
        refuse(place, f"malformed value: {str(error).splitlines()[0]}")


class References:
    """Follows ${a.b}, ${.sibling}, ${a[0]}, ${a.${b}}, ${oc.select:key,default}, ${oc.env:NAME}, ${oc.decode:text}
    and arithmetic. A value that cannot be followed keeps its text and records the reason."""

    def __init__(self, root: Value, environment: Mapping[str, str], lost: list[LostPart]) -> None:
        self.root = root
        self.environment = environment
        self.lost = lost
        self.followed: dict[Path, Value] = {}  # so that each text is parsed only once
        self.open: list[Path] = []  # the positions being read, outermost first
        self.work = 0

    def follow_all(self) -> Value:
        return self.follow(self.root, ())

    def follow(self, value: Value, at: Path) -> Value:
        """Follows the references in a value whose position in the configuration is `at`."""
        self.work += 1
        if self.work > MOST_WORK:
            refuse(self.root.place, f"has more than {MOST_WORK} values, counting those that references lead to")
        if has_reference(value):
            return self.evaluate(value, at)
        if isinstance(value.data, dict):
            return replace(value, data={key: self.follow(entry, (*at, key)) for key, entry in value.data.items()})
        if isinstance(value.data, list):
            return replace(value, data=[self.follow(item, (*at, str(i))) for i, item in enumerate(value.data)])
        is_mandatory = value.data == "???" and not value.quoted
        return replace(value, missing=MANDATORY if is_mandatory else value.missing)

    def evaluate(self, value: Value, at: Path) -> Value:
        """Evaluates a text that contains references."""
        if at not in self.followed:
            if at in self.open or len(self.open) > DEEPEST:
                cycle = f"refers to itself through {dotted(self.open[-1])}"
                result = Value(missing=cycle if at in self.open else "its references are nested too deeply")
            else:
                self.open.append(at)
                result = self.read(str(value.data), at)
                self.open.pop()
            if result.missing:
                result = Value(value.data, missing=result.missing)
            self.followed[at] = replace(result, written=str(value.data), place=value.place)
        return replace(self.followed[at])

    def read(self, text: str, at: Path, rule: str = "configValue", mode: str = "DEFAULT_MODE") -> Value:
        visitor = _Visitor(
            lambda key, memo: self.referred(key, at),
            lambda name, args, args_str: self.resolve(name, [*map(value_of, args, args_str)], at),
        )
        try:
            return value_of(visitor.visit(_parse(text, rule, mode)), text)
        except Lost as lost:
            return Value(missing=str(lost))
        except RecursionError:
            return Value(missing="its references are nested too deeply")
        except (GrammarParseError, InterpolationResolutionError):
            return Value(missing="has a reference that cannot be read")

    def path_of(self, key: str, at: Path) -> Path | None:
        """Converts "a.b", "a[0]", ".b" or "..b" to a path; leading dots refer to the sections around `at`. None above them."""
        up = len(key) - len(key.lstrip("."))
        path = (at[: len(at) - up] if up else ()) + tuple(re.findall(r"[^.\[\]]+", key))
        return path if up <= len(at) and path else None

    def referred(self, key: str, at: Path) -> Value:
        path = self.path_of(key, at)
        if path is None:
            return Value(missing=f"refers to {key}, which is outside the file")
        selected = self.select(path)
        return selected.add_via(f"follows {dotted(path)}") if selected else Value(missing=self.why_absent(path))

    def select(self, path: Path) -> Value | None:
        """Returns the value at a path, or None if there is none."""
        node = self.root
        for depth, part in enumerate(path):
            if has_reference(node) and not node.missing:
                node = self.evaluate(node, path[:depth])
            if node.missing:
                return node
            if isinstance(node.data, dict) and part in node.data:
                node = node.data[part]
            elif isinstance(node.data, list) and part.isdecimal() and int(part) < len(node.data):
                node = node.data[int(part)]
            else:
                return None
        return self.follow(node, path)

    def why_absent(self, path: Path) -> str:
        part = next((part for part in self.lost if starts_with(path, part.package)), None)
        if part:
            return f"refers to {dotted(path)}, which {part.file} may set, but that file was not found"
        return f"refers to {dotted(path)}, which this file does not have"

    def resolve(self, name: str, arguments: list[Value], at: Path) -> Value:
        if name in ("oc.select", "oc.env"):
            if arguments and arguments[0].missing:
                return arguments[0]
            if not 1 <= len(arguments) <= 2 or not isinstance(arguments[0].data, str):
                return Value(missing=f"has an {name} that cannot be read")
            return (self.select_or_default if name == "oc.select" else self.from_environment)(arguments, at)
        broken = next((argument for argument in arguments if argument.missing), None)
        if broken:
            return broken
        if name == "oc.decode" and len(arguments) == 1:
            return self.decode(arguments[0], at)
        if name == "oc.deprecated" and arguments:
            return self.select_or_default(arguments[:1], at)
        value = arithmetic.resolve(name, arguments)
        if value is None:
            why = " with arguments that cannot be computed here" if arithmetic.is_known(name) else ", which is not supported here"
            return Value(missing=f"needs the resolver {name}{why}")
        value = replace(value)
        for argument in arguments:
            value.add_via(argument.via)
        return value if value.via else value.add_via(f"computed by {name}")

    def select_or_default(self, arguments: list[Value], at: Path) -> Value:
        key = str(arguments[0].data)
        path = self.path_of(key, at)
        if path is None:
            return Value(missing=f"refers to {key}, which is outside the file")
        selected = self.select(path)
        if selected and selected.data != "???":
            return selected.add_via(f"follows {dotted(path)}")
        if not selected and any(starts_with(path, part.package) for part in self.lost):
            return Value(missing=self.why_absent(path))
        fallback = replace(arguments[1]) if len(arguments) == 2 else Value()
        return fallback.add_via(f"{dotted(path)} {'has no value' if selected else 'does not exist'}, so its default is used")

    def from_environment(self, arguments: list[Value], at: Path) -> Value:
        name = str(arguments[0].data)
        if name in self.environment:
            return Value(self.environment[name], quoted=True, via=f"environment variable {name}")
        if len(arguments) == 1:
            return Value(missing=f"needs {name}, which is not set in the environment")
        return replace(arguments[1]).add_via(f"{name} is not set in the environment, so its default is used")

    def decode(self, argument: Value, at: Path) -> Value:
        """Parses a text as if it were in the file: "[1, 2]" becomes a list."""
        if not isinstance(argument.data, str):
            return argument
        value = self.read(argument.data.strip(), at, "singleElement", "VALUE_MODE")
        if value.missing and not has_reference(argument):
            value = Value(argument.data.strip())
        return value.add_via(argument.via)
