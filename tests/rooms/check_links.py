#!/usr/bin/env python3
"""check_links.py SOURCE_DIR: fails when a room includes a header of a room that it does not link, or a private header
of another room that this room does not open to those above it (OPENS in its CMakeLists.txt); when a public header
includes a private one; and when a room opens a header that no other folder includes. Folders are those of src,
bench, and the bindings of the Python package."""
import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
ROOM = re.compile(r'evenkeel_add_room\(\s*(\w+)(.*?)\)', re.DOTALL)
LISTS = {'SOURCES', 'LINKS', 'PRIVATE_LINKS', 'OPENS'}


def lists_of(text):
    """The words after each keyword of an evenkeel_add_room call."""
    lists, words = {name: [] for name in LISTS}, None
    for word in text.split():
        if word in LISTS:
            words = lists[word]
        elif words is not None:
            words.append(word)
    return lists


def read_rooms(source):
    rooms = {}
    for file in sorted(source.glob('src/*/CMakeLists.txt')):
        found = ROOM.search(re.sub(r'#.*', '', file.read_text()))
        if found:
            rooms[found.group(1)] = lists_of(found.group(2))
    return rooms


def linked(rooms, room):
    """The rooms that a room links, directly or through others."""
    seen, todo = set(), [room]
    while todo:
        for word in rooms[todo.pop()]['LINKS']:
            name = word.removeprefix('Evenkeel::')
            if name in rooms and name not in seen:
                seen.add(name)
                todo.append(name)
    return seen


def room_of(include, rooms):
    """The room that a header belongs to, and whether it is private there."""
    parts = include.split('/')
    if parts[0] == 'evenkeel' and parts[1] in rooms:
        return parts[1], False
    return (parts[0], True) if len(parts) > 1 and parts[0] in rooms else (None, False)


def includes_of(source, folder):
    """Every file of a folder's headers and sources, with each of its includes."""
    for top in ('include/evenkeel', 'src', 'python', '.'):
        for file in sorted((source / top / folder).rglob('*.?pp')):
            for include in INCLUDE.findall(file.read_text()):
                yield file.relative_to(source), include


def errors_of(source, rooms, folder, used):
    """What is wrong in a room, or in a folder of programs, which links what it likes. Notes opened headers in use."""
    below = linked(rooms, folder) if folder in rooms else set(rooms)
    for file, include in includes_of(source, folder):
        other, private = room_of(include, rooms)
        if file.parts[0] == 'include' and not include.startswith('evenkeel/'):
            yield f'{file} is public and includes {include}, which is not'
        if other is None or other == folder:
            continue
        header = include.removeprefix(other + '/')
        if other not in below:
            yield f'{file} includes {include}, but {folder} does not link {other}'
        elif private and header not in rooms[other]['OPENS']:
            yield f'{file} includes {include}, which {other} keeps to itself'
        elif private:
            used.add((other, header))


def unused_of(rooms, used):
    for room in rooms:
        for header in rooms[room]['OPENS']:
            if (room, header) not in used:
                yield f'{room} opens {header}, which no other folder includes'


def main():
    source = pathlib.Path(sys.argv[1])
    rooms = read_rooms(source)
    if len(rooms) < 2:
        sys.exit('no rooms found')
    used = set()
    folders = sorted(f.name for f in (source / 'src').iterdir() if f.is_dir()) + ['bench', 'bindings']
    errors = [error for folder in folders for error in errors_of(source, rooms, folder, used)]
    errors += unused_of(rooms, used)
    print('\n'.join(errors) or f'{len(rooms)} rooms keep to what they link')
    sys.exit(bool(errors))


if __name__ == '__main__':
    main()
