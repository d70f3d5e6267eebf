#!/usr/bin/env python3
"""check_page.py SOURCE_DIR: fails unless the tables of docs/exchange.md name every part of the models, with functions that
exist in the files that the tables name."""
import pathlib
import re
import sys

ROW = re.compile(r'^\| `(\w+)`[^|]*\|([^|]*)\|([^|]*)\|$', re.M)
# Parts of the models that do not correspond to code.
MODEL_ONLY = {'conclude', 'forget_call', 'look_up', 'call_together', 'bring_fields'}


def main():
    source = pathlib.Path(sys.argv[1])
    models = '\n'.join(file.read_text(encoding='utf-8') for file in sorted((source / 'tests/protocol').glob('*.pml')))
    parts = set(re.findall(r'^inline (\w+)', models, re.M)) - MODEL_ONLY
    mutants = set(re.findall(r'#\s*ifn?def (MUTANT_\w+)', models))
    page = (source / 'docs/exchange.md').read_text(encoding='utf-8').partition('## Protocol')[2]
    errors = []
    named = set()
    for part, functions, files in ROW.findall(page):
        named.add(part)
        texts = []
        for name in re.findall(r'`([^`]+)`', files):
            if (source / name).is_file():
                texts.append((source / name).read_text(encoding='utf-8'))
            else:
                errors.append(f'{part}: there is no {name}')
        for function in re.findall(r'`([\w:]+)`', functions):
            if not any(re.search(rf'\b{re.escape(function)}\b', text) for text in texts):
                errors.append(f'{part}: {function} is in none of its files')
    errors += [f'docs/exchange.md does not name {name}' for name in sorted((parts | mutants) - named - set(
        re.findall(r'`(MUTANT_\w+)`', page)))]
    errors += [f'the models have no {name}' for name in sorted(named - parts)]
    print('\n'.join(errors) or f'{len(named)} parts of the models, all in the code')
    sys.exit(bool(errors))


if __name__ == '__main__':
    main()
