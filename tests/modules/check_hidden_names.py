#!/usr/bin/env python3
"""check_hidden_names.py SOURCE_DIR: fails if compiling several sources at once could change what a name means.

Sources of a module in the same namespace inside evenkeel, such as evenkeel::cli, may be compiled together. Later sources then
see what an earlier one declares in its anonymous namespace, which hides names of evenkeel itself: once a limit of 16 replaced
one of 64, and every compiler accepted it. So a name in an anonymous namespace must not equal a name of evenkeel that another
source of the same namespace uses."""
import pathlib
import re
import sys

NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
TYPE = re.compile(r'(?:template\s*<.*>\s*)?(?:struct|class|enum class|enum|using|concept)\s+(\w+)\b(?!::)')
VALUE = re.compile(r'[\w:<>,&*\s\[\]]*?[\w>&*\]]\s+[*&]?(\w+)\s*(?:\(|=|\{|;|\[)')


def code_of(file):
    return NOT_CODE.sub(' ', file.read_text())


def declared(lines):
    """Yields names declared on lines without indentation: the contents of namespaces are not indented."""
    for line in lines:
        found = line[:1].isalpha() and not line.startswith(('namespace', 'return')) and (TYPE.match(line) or VALUE.match(line))
        if found:
            yield found.group(1)


def blocks(code, opening):
    """Yields the lines of each namespace that begins with the line `opening`."""
    depth, lines = 0, []
    for line in code.split('\n'):
        if depth:
            lines.append(line)
        if depth or line == opening:
            depth += line.count('{') - line.count('}')
            if not depth:
                yield lines
                lines = []


def names_in(code, opening):
    return {name for lines in blocks(code, opening) for name in declared(lines)}


class Tree:
    def __init__(self, source):
        self.roots = [source / 'include', source / 'src', source]
        files = [file for top in ('include', 'src', 'bench') for file in sorted((source / top).rglob('*.[ch]pp'))]
        self.code = {file: code_of(file) for file in files}
        self.includes = {file: [found for name in INCLUDE.findall(file.read_text()) if (found := self.found(name))]
                         for file in files}

    def found(self, name):
        return next((root / name for root in self.roots if (root / name).is_file()), None)

    def seen_from(self, file):
        seen, waiting = set(), [file]
        while waiting:
            for header in self.includes.get(waiting.pop(), []):
                if header not in seen:
                    seen.add(header)
                    waiting.append(header)
        return seen

    def sources_by_namespace(self):
        """Returns the sources of each module that are in the same namespace inside evenkeel."""
        modules = {}
        for file, code in self.code.items():
            named = re.search(r'^namespace (evenkeel::\w+) \{$', code, re.MULTILINE)
            if file.suffix == '.cpp' and named:
                top, module, *_ = file.relative_to(self.roots[2]).parts
                modules.setdefault((named.group(1), module if top == 'src' else top), []).append(file)
        return modules


def hidden(tree):
    outer = {file: names_in(code, 'namespace evenkeel {') for file, code in tree.code.items() if file.suffix == '.hpp'}
    for (namespace, _), sources in tree.sources_by_namespace().items():
        uses = {file: (set(re.findall(r'(?<![.\w>])\w+', tree.code[file])),
                       {name for header in tree.seen_from(file) for name in outer.get(header, ())}) for file in sources}
        for file in sources:
            for name in sorted(names_in(tree.code[file], 'namespace {')):
                for other in sources:
                    words, seen = uses[other]
                    if other != file and name in words and name in seen:
                        yield f'{file}: {name} of its anonymous namespace could hide evenkeel::{name} in {other}, which ' \
                              f'stands in {namespace}, too: give it another name'


def main():
    found = list(hidden(Tree(pathlib.Path(sys.argv[1]))))
    print('\n'.join(found) if found else 'No source hides a name from another.')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
