#!/usr/bin/env python3
"""check_words.py SOURCE_DIR: fails if a comment, a docstring or a page contains a banned word or opener, which readers would
have to decode. Prints each place with a suggestion."""
import pathlib
import re
import sys

FOLDERS = {'.cpp': ('src', 'bench', 'examples', 'tests'), '.hpp': ('src', 'include', 'bench', 'tests'), '.h': ('include',),
           '.py': ('python', 'tests', 'examples', 'launch'), '.sh': ('launch', 'tests'), '.md': ('docs',)}
COMMENTS = {'.cpp': r'//+(.*)', '.hpp': r'//+(.*)', '.h': r'//+(.*)', '.py': r'#(.*)|"""(.*)', '.sh': r'#(.*)', '.md': r'(.*)'}
# Comments that begin like this have no subject. A line begins a comment if the line above it is not a comment.
OPENERS = {
    r'Those\b': 'a noun', r'Of (?!course)\w': 'a noun', r'Else\b': '"Otherwise", or the condition', r'Nor\b': 'a sentence with a subject',
    r'That\b(?! is)': 'a noun', r'As (?!if|a |an |of |long|many|soon)\w+ \w+ed\b': 'a verb',
}
WORDS = {
    r'told apart': 'distinguished', r'likewise': 'also', r'whoever': 'the client, the caller, ...', r'so many(?! \w+ that|$)': 'this number of',
    r'tak(es?|en) up': 'use, resume, connect', r'nameless': 'unlinked, unnamed', r'for nothing': 'unnecessarily',
    r'in a hurry': 'soon', r'are called so': 'have this name', r'signs? of life': 'heartbeat',
}
OPENER = re.compile('|'.join(f'(?P<o{i}>{pattern})' for i, pattern in enumerate(OPENERS)))
WORD = re.compile(r'\b(?:' + '|'.join(f'(?P<w{i}>{pattern})' for i, pattern in enumerate(WORDS)) + r')\b', re.IGNORECASE)


def findings(path):
    comment = re.compile(COMMENTS[path.suffix])
    is_prose = path.suffix == '.md'
    above = False
    for number, line in enumerate(path.read_text(encoding='utf-8').splitlines(), 1):
        match = comment.search(line)
        text = next((group for group in match.groups() if group is not None), '').strip(' /!*-') if match else ''
        if text and not is_prose and not above and (found := OPENER.match(text)):
            yield number, found.group(), list(OPENERS.values())[int(found.lastgroup[1:])]
        for found in WORD.finditer(text):
            yield number, found.group(), list(WORDS.values())[int(found.lastgroup[1:])]
        above = bool(match) and line.strip().startswith(('//', '#'))


def main():
    source = pathlib.Path(sys.argv[1])
    files = {file for ending, folders in FOLDERS.items() for folder in folders for file in (source / folder).rglob('*' + ending)}
    found = [f'{file.relative_to(source)}:{number}: has "{words}". Write instead: {instead}'
             for file in sorted({*files, source / 'README.md', source / 'CONTRIBUTING.md'}) if file != pathlib.Path(__file__).resolve()
             for number, words, instead in findings(file)]
    print(*found, sep='\n')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main())
