#!/usr/bin/env python3
"""check_headers_page.py SOURCE_DIR: fails unless docs/installing.md names every header of include/evenkeel at least once and no
other header; also fails if there are more than MOST headers."""
import pathlib
import re
import sys

MOST = 64  # before you add a header, check whether another one can be removed


def main():
    source = pathlib.Path(sys.argv[1])
    there = {str(file.relative_to(source / 'include')) for file in (source / 'include').rglob('*.h*')}
    if not there:
        sys.exit('no public headers found')
    named = set(re.findall(r'`(evenkeel/[\w/]+\.h(?:pp)?)`', (source / 'docs/installing.md').read_text().partition('## Public headers')[2]))
    errors = [f'docs/installing.md does not name {header}' for header in sorted(there - named)]
    errors += [f'docs/installing.md names {header}, which is not there' for header in sorted(named - there)]
    if len(there) > MOST:
        errors.append(f'{len(there)} public headers, {MOST} at most')
    print('\n'.join(errors) or f'{len(there)} public headers, all on the page')
    sys.exit(bool(errors))


if __name__ == '__main__':
    main()
