#!/usr/bin/env python3
"""check_tree.py SOURCE_DIR: fails when the tree is not as the pages say. A folder has at most 25 files and a file at most
500 lines, unless it is listed below with the reason; a line below that nothing needs any more is an error, too. Every room
has a folder of tests, a line in CONTRIBUTING's table, and its name in docs/rooms.svg, and nothing else is there."""
import pathlib
import re
import sys

MOST_FILES = 25
MOST_LINES = 500
TOPS = ('bench', 'cmake', 'configs', 'examples', 'include', 'launch', 'python', 'src', 'tests')

CROWDED = {
    'tests/golden': 'one file for each function of another system',
}
LONG = {
    'tests/config/file_test.cpp': 'one suite: what a file may say',
    'tests/service/fields/layered_fields_mpi_test.cpp': 'one suite over one job',
}
# Written by programs, or data: their length says nothing.
DATA = ('.bin', '.csv', '.gz', '.idx', '.json', '.jsonl', '.npy', '.npz', '.safetensors', '.svg', '.zst')


def files_of(source):
    for top in TOPS:
        for file in sorted((source / top).rglob('*')):
            if file.is_file() and not {'__pycache__', '.mypy_cache'} & set(file.parts) and 'corpus' not in file.parts:
                yield file.relative_to(source)


def too_much(source):
    files = list(files_of(source))
    if len(files) < 100:
        yield f'{source} has {len(files)} files: is this the repository?'
    folders = {}
    for file in files:
        folders[str(file.parent)] = folders.get(str(file.parent), 0) + 1
    lines = {str(file): (source / file).read_bytes().count(b'\n') for file in files if file.suffix not in DATA}
    for found, most, allowed, what in ((folders, MOST_FILES, CROWDED, 'files'), (lines, MOST_LINES, LONG, 'lines')):
        above = {name: count for name, count in found.items() if count > most}
        for name in sorted(above.keys() - allowed.keys()):
            yield f'{name} has {above[name]} {what}, and {most} are the most: take it apart by what its parts are about'
        for name in sorted(allowed.keys() - above.keys()):
            yield f'{name} has at most {most} {what}: take its line out of tests/rooms/check_tree.py'


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


def main():
    source = pathlib.Path(sys.argv[1])
    errors = [*too_much(source), *wrong_rooms(source)]
    print('\n'.join(errors) or 'folders, files and rooms are as the pages say')
    sys.exit(bool(errors))


if __name__ == '__main__':
    main()
