"""Pages about the Python package's modules, made of its sources: public names, signatures and docstrings.

Modules are read, not imported, so that neither torch nor MPI is needed.
"""

import ast
import dataclasses
import pathlib
import re
import textwrap


@dataclasses.dataclass
class Module:
    """A module of the package and its public parts."""

    name: str
    doc: str
    functions: dict[str, ast.FunctionDef]
    classes: dict[str, ast.ClassDef]
    imported: dict[str, str]  # name -> module that it is from
    values: dict[str, ast.stmt]
    public: list[str]

    @property
    def page(self) -> str:
        return f"{self.name}.md"


def modules_of(package: pathlib.Path) -> list[Module]:
    """The public modules, the package itself first."""
    files = sorted(path for path in package.rglob("*.py") if path.name == "__init__.py" or path.name[0] != "_")
    return sorted((_module(package, path) for path in files), key=lambda module: module.name)


def _module(package: pathlib.Path, path: pathlib.Path) -> Module:
    parts = path.relative_to(package.parent).with_suffix("").parts
    name = ".".join(part for part in parts if part != "__init__")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    module = Module(name, ast.get_docstring(tree) or "", *_definitions(tree.body), [])
    module.public = _listed(tree) or [n for n in [*module.classes, *module.functions, *module.values] if n[0] != "_"]
    return module


def _definitions(body: list[ast.stmt]) -> tuple:
    functions, classes, imported, values = {}, {}, {}, {}
    for node in body:
        if isinstance(node, ast.FunctionDef):
            functions[node.name] = node
        elif isinstance(node, ast.ClassDef):
            classes[node.name] = node
        elif isinstance(node, ast.ImportFrom):
            imported |= {name.asname or name.name: node.module or "" for name in node.names}
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            values[node.targets[0].id] = node
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            values[node.target.id] = node
    return functions, classes, imported, values


def _listed(tree: ast.Module) -> list[str]:
    for node in tree.body:
        is_list = isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        if is_list and isinstance(node.value, ast.List):  # not those of the strict drop-ins, which have others' names
            return ast.literal_eval(node.value)
    return []


class Reference:
    """The pages of all modules."""

    def __init__(self, package: pathlib.Path):
        self.modules = modules_of(package)
        self._by_name = {module.name: module for module in self.modules}

    def pages(self) -> dict[str, str]:
        return {module.page: self._page(module) for module in self.modules}

    def _page(self, module: Module) -> str:
        parts = [f"# `{module.name}`", prose(module.doc)]
        elsewhere = [row for name in module.public if (row := self._elsewhere(module, name))]
        if elsewhere:
            parts.append("\n".join(["| name | |", "|---|---|", *elsewhere]))
        parts += [self._entry(module, name) for name in module.public]
        return "\n\n".join(part for part in parts if part) + "\n"

    def _entry(self, module: Module, name: str) -> str:
        if name in module.functions:
            return f"## `{name}`\n\n" + _function(module.functions[name])
        if name in module.classes:
            return f"## `{name}`\n\n" + _class(module.classes[name])
        if name in module.values:
            return f"## `{name}`\n\n" + _code(ast.unparse(module.values[name]))
        return ""

    def _elsewhere(self, module: Module, name: str) -> str:
        """The table row of a name that another page describes, if there is one."""
        if f"{module.name}.{name}" in self._by_name:
            found = self._by_name[f"{module.name}.{name}"]
            return f"| [`{name}`]({found.page}) | {_in_a_cell(_first_sentence(found.doc))} |"
        home = self._by_name.get(module.imported.get(name, ""))
        if home is None:
            return ""
        return f"| [`{name}`]({home.page}#{name.lower()}) | {_in_a_cell(_first_sentence(self._doc_of(home, name)))} |"

    def _doc_of(self, module: Module, name: str) -> str:
        node = module.functions.get(name) or module.classes.get(name)
        return (ast.get_docstring(node) or "") if node else ""


def _class(node: ast.ClassDef) -> str:
    bases = [ast.unparse(base) for base in node.bases]
    made = next((part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "__init__"), None)
    said = f"class {node.name}" + (f"({', '.join(bases)})" if bases else "")
    parts = [_code(said if made is None else said + "\n\n" + _signature(made, node.name))]
    parts.append(prose(ast.get_docstring(node) or ""))
    attributes = [
        f"- `{part.target.id}: {ast.unparse(part.annotation)}`"
        for part in node.body
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name) and part.target.id[0] != "_"
    ]
    methods = []
    for part in node.body:
        if not isinstance(part, ast.FunctionDef) or (part.name[0] == "_" and part.name != "__call__"):
            continue
        if "property" in _decorators(part):
            attributes.append(_property(part))
        else:
            methods.append(_function(part))
    if attributes:
        parts += ["**Attributes**", "\n".join(attributes)]
    if methods:
        parts += ["**Methods**", *methods]
    return "\n\n".join(part for part in parts if part)


def _decorators(node: ast.FunctionDef) -> set[str]:
    return {ast.unparse(decorator) for decorator in node.decorator_list}


def _property(node: ast.FunctionDef) -> str:
    kind = f": {ast.unparse(node.returns)}" if node.returns else ""
    words = prose(ast.get_docstring(node) or "").replace("\n\n", " ").replace("\n", " ")
    return f"- `{node.name}{kind}`" + (f" – {words}" if words else "")


def _function(node: ast.FunctionDef) -> str:
    decorators = "".join(f"@{name}\n" for name in sorted(_decorators(node) & {"staticmethod", "classmethod"}))
    return "\n\n".join([_code(decorators + _signature(node)), prose(ast.get_docstring(node) or "")]).strip()


def _signature(node: ast.FunctionDef, name: str = "") -> str:
    parameters = _parameters(node.args)
    if parameters and parameters[0] in ("self", "cls") and "staticmethod" not in _decorators(node):
        parameters = parameters[1:]
        parameters = parameters[1:] if parameters[:1] == ["/"] else parameters
    returns = f" -> {ast.unparse(node.returns)}" if node.returns and not name else ""
    line = f"{name or node.name}({', '.join(parameters)}){returns}"
    if len(line) <= 84:
        return line
    inside = "".join(f"    {parameter},\n" for parameter in parameters)
    return f"{name or node.name}(\n{inside}){returns}"


def _parameters(args: ast.arguments) -> list[str]:
    plain = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(plain) - len(args.defaults)) + list(args.defaults)
    shown = [_parameter(arg, default) for arg, default in zip(plain, defaults)]
    if args.posonlyargs:
        shown.insert(len(args.posonlyargs), "/")
    if args.vararg:
        shown.append("*" + _parameter(args.vararg, None))
    elif args.kwonlyargs:
        shown.append("*")
    shown += [_parameter(arg, default) for arg, default in zip(args.kwonlyargs, args.kw_defaults)]
    if args.kwarg:
        shown.append("**" + _parameter(args.kwarg, None))
    return shown


def _parameter(arg: ast.arg, default: ast.expr | None) -> str:
    kind = f": {ast.unparse(arg.annotation)}" if arg.annotation else ""
    if default is None:
        return arg.arg + kind
    return f"{arg.arg}{kind}{' = ' if kind else '='}{ast.unparse(default)}"


def _code(text: str, language: str = "python") -> str:
    return f"```{language}\n{text}\n```"


TERM = re.compile(r"(\S+) {2,}(\S.*)")


def prose(doc: str) -> str:
    """A docstring as Markdown: indented blocks are code, and columns of names and words are lists."""
    return "\n\n".join(_block(block) for block in re.split(r"\n\s*\n", doc.strip("\n")) if block.strip())


def _block(block: str) -> str:
    lines = block.split("\n")
    if all(not line or line.startswith("    ") for line in lines) and not TERM.fullmatch(lines[0].strip()):
        return _code(textwrap.dedent(block), "pycon" if lines[0].strip().startswith(">>>") else "python")
    if lines[0].strip().startswith(">>>"):
        return _code(textwrap.dedent(block), "pycon")
    if TERM.fullmatch(lines[0].strip()):
        return _terms(textwrap.dedent(block).split("\n"))
    return "\n".join(_words(line) for line in lines)


def _terms(lines: list[str]) -> str:
    items: list[str] = []
    for line in lines:
        term = TERM.fullmatch(line)
        if term and line[0] != " ":
            items.append(f"- `{term.group(1).strip('`')}`: {_words(term.group(2))}")
        else:
            items.append("  " + _words(line.strip()))
    return "\n".join(items)


def _words(text: str) -> str:
    """Words of a docstring, which knows no Markdown but code, and names pages."""
    return "".join(_word(part) for part in re.split(r"(`+[^`]+`+|docs/[\w-]+\.md)", text))


def _word(text: str) -> str:
    if text.startswith("`"):
        return f"`{text.strip('`')}`"
    if text.startswith("docs/"):
        return f"[{text}](../{text.removeprefix('docs/')})"
    return re.sub(r"[*_\[\]\\]", r"\\\g<0>", text).replace("<", "&lt;")


def _first_sentence(doc: str) -> str:
    words = " ".join(doc.split("\n\n")[0].split())
    return re.split(r"(?<=[.:]) (?=[A-Z(`])", words)[0].rstrip(":")


def _in_a_cell(words: str) -> str:
    return _words(words).replace("|", "\\|")
