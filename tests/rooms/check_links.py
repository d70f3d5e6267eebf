#!/usr/bin/env python3
"""check_links.py SOURCE_DIR: fails when a room includes a header of a room that it does not link, or a private header
of another room that this room does not open to those above it (OPENS in its CMakeLists.txt)."""
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


def errors_of(source, rooms, room):
    below = linked(rooms, room)
    files = [f for top in ('include/evenkeel', 'src') for f in sorted((source / top / room).rglob('*.?pp'))]
    for file in files:
        for include in INCLUDE.findall(file.read_text()):
            other, private = room_of(include, rooms)
            if other is None or other == room:
                continue
            if other not in below:
                yield f'{file.relative_to(source)} includes {include}, but {room} does not link {other}'
            elif private and include.removeprefix(other + '/') not in rooms[other]['OPENS']:
                yield f'{file.relative_to(source)} includes {include}, which {other} keeps to itself'


def main():
    source = pathlib.Path(sys.argv[1])
    rooms = read_rooms(source)
    if len(rooms) < 2:
        sys.exit('no rooms found')
    errors = [error for room in rooms for error in errors_of(source, rooms, room)]
    print('\n'.join(errors) or f'{len(rooms)} rooms keep to what they link')
    sys.exit(bool(errors))


if __name__ == '__main__':
    main()
