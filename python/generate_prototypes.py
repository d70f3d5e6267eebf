#!/usr/bin/env python3
"""generate_prototypes.py HEADER... OUT: writes a Python module with the ctypes prototypes of everything that C headers of Evenkeel
declare, including the headers that they include from their own folder: constants, structures, callbacks, and FUNCTIONS. By the name of
each header, which is that of a library, it has the functions that no header before it declares: the result and the arguments of each
function, and whether the result is a status. Runs when the package is built, and needs only the standard library.

Pointers to structures with members, and texts that are passed in, have their own types. All other pointers (handles, arrays,
texts that are returned through a pointer) are c_void_p, which accepts addresses and byref(). Raises ValueError for a declaration that
it does not understand, so that no function is left out."""

from __future__ import annotations

import pathlib
import re
import sys

SCALARS = {
    "int8_t": "c_int8", "uint8_t": "c_uint8", "int32_t": "c_int32", "int64_t": "c_int64", "uint64_t": "c_uint64",
    "size_t": "c_size_t", "float": "c_float", "double": "c_double",
    "MPI_Comm": "c_void_p",  # of Open MPI
}
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
DIRECTIVE = re.compile(r"^[ \t]*#[^\n]*(?:\\\n[^\n]*)*", re.MULTILINE)
GUARD = re.compile(r"^#ifdef __cplusplus\n.*?^#endif\n", re.MULTILINE | re.DOTALL)


class Prototypes:
    """Collects the declarations of headers."""

    def __init__(self) -> None:
        self.constants: list[str] = []
        self.types: list[str] = []
        self.functions: list[str] = []  # of the header being read
        self.aliases: dict[str, str] = {}  # of scalars
        self.structures: set[str] = set()
        self.handles: set[str] = set()
        self.callbacks: set[str] = set()
        self._read: set[pathlib.Path] = set()

    def read(self, header: pathlib.Path) -> None:
        """Adds a header, after those that it includes from its folder."""
        header = header.resolve()
        if header in self._read:
            return
        self._read.add(header)
        text = header.read_text(encoding="utf-8")
        for name in re.findall(r'^#include "(?:[^"]*/)?([^"/]+)"', text, re.MULTILINE):
            self.read(header.parent / name)
        self.declare(DIRECTIVE.sub("", GUARD.sub("", COMMENT.sub(" ", text))))

    def declare(self, code: str) -> None:
        """Adds declarations, without comments and directives."""
        for statement in re.findall(r"[^;{}]*(?:\{[^{}]*\}[^;{}]*)?;", code):
            self._add(" ".join(statement[:-1].split()))
        rest = re.sub(r"[^;{}]*(?:\{[^{}]*\}[^;{}]*)?;", "", code).strip()
        if rest:
            raise ValueError(f"cannot read this part of a header: {rest[:80]!r}")

    def _add(self, statement: str) -> None:
        if found := re.fullmatch(r"enum \{(.*)\}", statement):
            self._add_constants(found[1])
        elif found := re.fullmatch(r"typedef struct (\w+) (\w+)", statement):
            self.handles.add(found[2])
        elif found := re.fullmatch(r"typedef struct \w+ \{(.*)\} (\w+)", statement):
            self._add_structure(found[2], found[1])
        elif found := re.fullmatch(r"typedef (.+?)\(\*(\w+)\)\((.*)\)", statement):
            self.types.append(f"{found[2]} = {self._callback(found[1], found[3])}")
            self.callbacks.add(found[2])
        elif found := re.fullmatch(r"typedef (\w+) (\w+)", statement):
            self.aliases[found[2]] = self._type(found[1])
        elif found := re.fullmatch(r"EVENKEEL_API (.+?[ *])(\w+)\((.*)\)", statement):
            arguments = ", ".join(self._arguments(found[3]))
            is_status = found[1].strip() == "evenkeel_status"
            self.functions.append(f'        "{found[2]}": ({self._result(found[1])}, [{arguments}], {is_status}),')
        else:
            raise ValueError(f"cannot read this declaration: {statement!r}")

    def _add_constants(self, body: str) -> None:
        for constant in filter(None, (part.strip() for part in body.split(","))):
            name, _, value = constant.partition(" = ")
            self.constants.append(f"{name} = {int(value)}")

    def _add_structure(self, name: str, body: str) -> None:
        fields = []
        for member in filter(None, (part.strip() for part in body.split(";"))):
            if function := re.fullmatch(r"(.+?)\(\*(\w+)\)\((.*)\)", member):
                fields.append(f'("{function[2]}", {self._callback(function[1], function[3])})')
                continue
            found = re.fullmatch(r"(.+?[ *])(\w+(?:, \w+)*)", member)
            if found is None:
                raise ValueError(f"cannot read this member of {name}: {member!r}")
            fields += [f'("{each}", {self._type(found[1])})' for each in found[2].split(", ")]
        lines = ",\n        ".join(fields)
        self.types.append(f"class {name}(ctypes.Structure):\n    _fields_ = [\n        {lines},\n    ]\n")
        self.structures.add(name)

    def _arguments(self, text: str) -> list[str]:
        if text == "void":
            return []
        arguments = []
        for argument in text.split(", "):
            found = re.fullmatch(r"(.+?[ *])\w+", argument)
            if found is None:
                raise ValueError(f"cannot read this argument: {argument!r}")
            arguments.append(self._type(found[1]))
        return arguments

    def _callback(self, result: str, arguments: str) -> str:
        return f"ctypes.CFUNCTYPE({', '.join([self._result(result), *self._arguments(arguments)])})"

    def _result(self, text: str) -> str:
        return "None" if text.strip() == "void" else self._type(text)

    def _type(self, text: str) -> str:
        words = text.replace("*", " * ").split()
        stars, base = words.count("*"), [word for word in words if word not in ("*", "const", "struct")]
        if len(base) != 1:
            raise ValueError(f"cannot read this type: {text!r}")
        if not stars and base[0] in self.callbacks:
            return base[0]
        if not stars:
            if base[0] in self.aliases:
                return self.aliases[base[0]]
            if base[0] in SCALARS:
                return f"ctypes.{SCALARS[base[0]]}"
            raise ValueError(f"does not know the type {text!r}")
        if base[0] not in {*SCALARS, *self.aliases, *self.structures, *self.handles, "char", "void"}:
            raise ValueError(f"does not know the type {text!r}")
        if stars == 1 and base[0] == "char" and words[0] == "const":
            return "ctypes.c_char_p"
        if stars == 1 and base[0] in self.structures:
            return f"ctypes.POINTER({base[0]})"
        return "ctypes.c_void_p"

    def module(self, headers: list[pathlib.Path]) -> str:
        """Returns the text of the module."""
        functions = []
        for header in headers:
            self.functions = []
            self.read(header)
            functions += [f'    "{header.stem}": {{', *self.functions, "    },"]
        names = " and ".join(header.name for header in headers)
        parts = [f'"""Prototypes of {names}, generated by generate_prototypes.py. Do not edit."""\n\nimport ctypes\n',
                 "\n".join(self.constants) + "\n",
                 *(f"\n{each}" for each in self.types), "\nFUNCTIONS = {", *functions, "}\n"]
        return "\n".join(parts)


def main() -> None:
    *headers, out = map(pathlib.Path, sys.argv[1:])
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(Prototypes().module(headers), encoding="utf-8")


if __name__ == "__main__":
    main()
