#!/usr/bin/env python3
"""check_links.py SOURCE_DIR: fails if a module includes a header of a module that it does not link, or a private header that
another module does not open (OPENS in its CMakeLists.txt); if a public header includes a private one; or if a module opens a
header that no other folder includes. Checks the folders of src, bench, and the bindings of the Python package."""
import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
MODULE = re.compile(r'evenkeel_add_module\(\s*(\w+)(.*?)\)', re.DOTALL)
LISTS = {'SOURCES', 'LINKS', 'PRIVATE_LINKS', 'OPENS'}


def lists_of(text):
    """Returns the words after each keyword of an evenkeel_add_module call."""
    lists, words = {name: [] for name in LISTS}, None
    for word in text.split():
        if word in LISTS:
            words = lists[word]
        elif words is not None:
            words.append(word)
    return lists


def read_modules(source):
    modules = {}
    for file in sorted(source.glob('src/*/CMakeLists.txt')):
        found = MODULE.search(re.sub(r'#.*', '', file.read_text()))
        if found:
            modules[found.group(1)] = lists_of(found.group(2))
    return modules


def linked(modules, module):
    """Returns the modules that a module links, directly or through others."""
    seen, todo = set(), [module]
    while todo:
        for word in modules[todo.pop()]['LINKS']:
            name = word.removeprefix('Evenkeel::')
            if name in modules and name not in seen:
                seen.add(name)
                todo.append(name)
    return seen


def module_of(include, modules):
    """Returns the module that a header belongs to, and whether the header is private there."""
    parts = include.split('/')
    if parts[0] == 'evenkeel' and parts[1] in modules:
        return parts[1], False
    return (parts[0], True) if len(parts) > 1 and parts[0] in modules else (None, False)


def includes_of(source, folder):
    """Yields every header and source of a folder with each of its includes."""
    for top in ('include/evenkeel', 'src', 'python', '.'):
        for file in sorted((source / top / folder).rglob('*.?pp')):
            for include in INCLUDE.findall(file.read_text()):
                yield file.relative_to(source), include


def errors_of(source, modules, folder, used):
    """Yields the errors of a module, or of a folder of programs, which may link any module. Adds the opened headers that it
    includes to `used`."""
    below = linked(modules, folder) if folder in modules else set(modules)
    for file, include in includes_of(source, folder):
        other, private = module_of(include, modules)
        if file.parts[0] == 'include' and not include.startswith('evenkeel/'):
            yield f'{file} is public and includes {include}, which is not'
        if other is None or other == folder:
            continue
        header = include.removeprefix(other + '/')
        if other not in below:
            yield f'{file} includes {include}, but {folder} does not link {other}'
        elif private and header not in modules[other]['OPENS']:
            yield f'{file} includes {include}, which {other} keeps to itself'
        elif private:
            used.add((other, header))


def unused_of(modules, used):
    for module in modules:
        for header in modules[module]['OPENS']:
            if (module, header) not in used:
                yield f'{module} opens {header}, which no other folder includes'


def main():
    source = pathlib.Path(sys.argv[1])
    modules = read_modules(source)
    if len(modules) < 2:
        sys.exit('no modules found')
    used = set()
    folders = sorted(f.name for f in (source / 'src').iterdir() if f.is_dir()) + ['bench', 'bindings']
    errors = [error for folder in folders for error in errors_of(source, modules, folder, used)]
    errors += unused_of(modules, used)
    print('\n'.join(errors) or f'{len(modules)} modules keep to what they link')
    sys.exit(bool(errors))


if __name__ == '__main__':
    main()
