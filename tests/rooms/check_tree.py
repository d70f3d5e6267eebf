#!/usr/bin/env python3
"""check_tree.py SOURCE_DIR: fails when the tree is not as the pages say. Every room has a folder of tests, a line in
CONTRIBUTING's table, and its name in docs/rooms.svg, and nothing else is there. Every C++ test is built."""
import pathlib
import re
import sys


def wrong_rooms(source):
    rooms = {folder.name for folder in (source / 'src').iterdir() if (folder / 'CMakeLists.txt').is_file()}
    table = (source / 'CONTRIBUTING.md').read_text().partition('| room |')[2].partition('\n\n')[0]
    named = set(re.findall(r'^\| `(\w+)`', table, re.MULTILINE))
    drawn = set(re.findall(r'>([a-z_]+)<', (source / 'docs/rooms.svg').read_text()))
    public = {folder.name for folder in (source / 'include/evenkeel').iterdir() if folder.is_dir()}
    for room in sorted(rooms):
        if not (source / 'tests' / room).is_dir():
            yield f'src/{room} has no folder tests/{room}'
        if room not in named:
            yield f"CONTRIBUTING.md's table of rooms does not have {room}"
        if room not in drawn:
            yield f'docs/rooms.svg does not show {room}'
    for room in sorted((named - rooms - {'bench'}) | (public - rooms)):
        yield f'{room} is a room in CONTRIBUTING.md or include/evenkeel, and there is no src/{room}'


def unbuilt_tests(source):
    lists = '\n'.join(path.read_text() for path in (source / 'tests').rglob('CMakeLists.txt'))
    for test in sorted((source / 'tests').rglob('*_test.cpp')):
        if test.name not in lists:
            yield f'no CMakeLists.txt names {test.relative_to(source)}, so nothing runs it'


def main():
    source = pathlib.Path(sys.argv[1])
    errors = [*wrong_rooms(source), *unbuilt_tests(source)]
    print('\n'.join(errors) or 'rooms are as the pages say')
    sys.exit(bool(errors))


if __name__ == '__main__':
    main()
