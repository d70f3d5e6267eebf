#!/usr/bin/env python3
"""check_tree.py SOURCE_DIR: fails unless the tree is as documented. Every module, and nothing else, has a folder of tests, a
row in CONTRIBUTING's table, and its name in docs/modules.svg. Every C++ test is built."""
import pathlib
import re
import sys


def wrong_modules(source):
    modules = {folder.name for folder in (source / 'src').iterdir() if (folder / 'CMakeLists.txt').is_file()}
    table = (source / 'CONTRIBUTING.md').read_text().partition('| module |')[2].partition('\n\n')[0]
    named = set(re.findall(r'^\| `(\w+)`', table, re.MULTILINE))
    drawn = set(re.findall(r'>([a-z_]+)<', (source / 'docs/modules.svg').read_text()))
    public = {folder.name for folder in (source / 'include/evenkeel').iterdir() if folder.is_dir()}
    for module in sorted(modules):
        if not (source / 'tests' / module).is_dir():
            yield f'src/{module} has no folder tests/{module}'
        if module not in named:
            yield f"CONTRIBUTING.md's table of modules does not have {module}"
        if module not in drawn:
            yield f'docs/modules.svg does not show {module}'
    for module in sorted((named - modules - {'bench'}) | (public - modules)):
        yield f'{module} is a module in CONTRIBUTING.md or include/evenkeel, and there is no src/{module}'


def unbuilt_tests(source):
    lists = '\n'.join(path.read_text() for path in (source / 'tests').rglob('CMakeLists.txt'))
    for test in sorted((source / 'tests').rglob('*_test.cpp')):
        if test.name not in lists:
            yield f'no CMakeLists.txt names {test.relative_to(source)}, so nothing runs it'


def main():
    source = pathlib.Path(sys.argv[1])
    errors = [*wrong_modules(source), *unbuilt_tests(source)]
    print('\n'.join(errors) or 'modules are as the pages say')
    sys.exit(bool(errors))


if __name__ == '__main__':
    main()
