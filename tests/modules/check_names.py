#!/usr/bin/env python3
"""check_names.py SOURCE_DIR: fails if a comment or a page names a file of the repository that does not exist: headers, sources,
scripts, pages, and in docs/architecture.md also names without an extension, such as `plan/assign`, and functions on a sample's
path; if a page or a header names a library to link that no CMakeLists.txt creates; or if a header names a different library
than docs/installing.md."""
import pathlib
import re
import sys

TOPS = ('bench', 'cmake', 'configs', 'docs', 'examples', 'include', 'launch', 'python', 'src', 'tests')
# Folders to which a name in a comment may be relative.
ROOTS = ('', 'src', 'include', 'include/evenkeel', 'tests', 'python', 'python/src')
FILE = re.compile(r'(?<![\w/.<>@$-])((?:\.\./)*(?:\w[\w.-]*/)*\w[\w-]*\.(?:hpp|cpp|h|py|md|sh|cmake|pml))(?!\w|[/.]\w)')
COMMENTS = {
    '.cpp': r'//[^\n]*|/\*.*?\*/',
    '.py': r'#[^\n]*|""".*?"""',
    '.cmake': r'#[^\n]*',
    '.sh': r'#[^\n]*',
    '.md': r'.*',
}
COMMENTS |= {'.hpp': COMMENTS['.cpp'], '.h': COMMENTS['.cpp'], '.c': COMMENTS['.cpp'], '.pml': COMMENTS['.cpp'],
             '.txt': COMMENTS['.cmake'], '.yaml': COMMENTS['.sh']}
# Files of other projects, and names that represent several files.
OTHERS = {'mpi.h', 'tools/preprocess_data.py', 'consumer/COMPONENT.cpp'}
# Tests that name invented files.
MADE_UP = {'tests/docs/test_site.py', 'tests/docs/test_outputs.py', 'tests/modules/check_names.py'}


class Tree:
    def __init__(self, source):
        self.source = source
        tops = [file for top in TOPS for file in (source / top).rglob('*') if '__pycache__' not in file.parts]
        files = [file for file in [*source.glob('*'), *tops] if file.is_file()]
        self.files = {str(file.relative_to(source)) for file in files}
        self.names = {pathlib.PurePosixPath(file).name for file in self.files}
        self.stems = {str(pathlib.PurePosixPath(file).with_suffix('')) for file in self.files}
        self.stems |= {str(folder) for file in self.files for folder in pathlib.PurePosixPath(file).parents}

    def has(self, name, place):
        """Returns whether a file of this name exists: relative to the file that names it, below a root, or anywhere if the name
        is short."""
        beside = (self.source / place).parent / name
        return (any(str(pathlib.PurePosixPath(root) / name) in self.files for root in ROOTS) or beside.is_file()
                or name in self.names)


def read(source, file):
    text = (source / file).read_text(encoding='utf-8', errors='ignore')
    if file.endswith('.md'):
        blocks = set(re.findall(r'check: (?:file|compiles|given): (\S+)', text))
        return re.sub(r'^```.*?^```$|<!--.*?-->', '', text, flags=re.MULTILINE | re.DOTALL), blocks
    return text, set()


def missing(tree):
    """Yields names of files in comments and pages that do not exist. Blocks of a page may write files, which the page may name.
    """
    for file in sorted(tree.files - MADE_UP):
        pattern = COMMENTS.get(pathlib.PurePosixPath(file).suffix)
        if pattern is None or file == 'CHANGELOG.md':
            continue
        text, written = read(tree.source, file)
        for comment in re.findall(pattern, text, re.DOTALL):
            for name in FILE.findall(comment):
                if name not in OTHERS | written and not tree.has(name, file):
                    yield f'{file} names {name}, which is not there'


def missing_places(tree):
    """Yields names without extensions in docs/architecture.md that are not files or folders of src, include/evenkeel or the
    top."""
    text, _ = read(tree.source, 'docs/architecture.md')
    for name in sorted(set(re.findall(r'`([a-z_]+(?:/[a-z_]+)+)`', text))):
        if not any(str(pathlib.PurePosixPath(root) / name) in tree.stems for root in ('', 'src', 'include/evenkeel', 'src/page')):
            yield f'docs/architecture.md names {name}, which is neither a file nor a folder'


def missing_functions(tree):
    """Yields functions in the table of a sample's path that are not defined where docs/architecture.md says."""
    text, _ = read(tree.source, 'docs/architecture.md')
    rows = re.findall(r'^\| \d+ \| `([\w:]+)` \| `(src/[\w/.]+)` \|', text, re.MULTILINE)
    if not rows:
        yield "docs/architecture.md has no table of a sample's path"
    for function, file in rows:
        of_class, _, name = function.rpartition('::')
        code = (tree.source / file).read_text(encoding='utf-8')
        outside = rf'^[\w].*\b{re.escape(function)}\('
        inside = rf'^class {of_class}\b.*^ +[\w].*\b{name}\([^;]*\{{$'
        if not re.search(outside, code, re.MULTILINE) and not (
                of_class and re.search(inside, code, re.MULTILINE | re.DOTALL)):
            yield f'docs/architecture.md names {function}, which {file} does not define'


def wrong_libraries(tree):
    modules = {file.split('/')[1] for file in tree.files if re.fullmatch(r'src/\w+/CMakeLists.txt', file)}
    known = modules | {f'{module}_alone' for module in modules} | {'c_mpi'}
    page, _ = read(tree.source, 'docs/installing.md')
    for file in sorted(tree.files):
        if not (file.startswith('include/') or file.endswith('.md')):
            continue
        text, _ = read(tree.source, file)
        for library in set(re.findall(r'Evenkeel::(\w+)', text)) - known:
            yield f'{file} names Evenkeel::{library}, which is no library'
        link = re.search(r'Link (Evenkeel::\w+)', text)
        header = file.removeprefix('include/')
        if link and header != file:
            row = re.search(rf'^\| `{re.escape(header)}` \| `(\S+)` \|', page, re.MULTILINE)
            own = 'Evenkeel::' + header.split('/')[1]
            if link[1] != (row[1] if row else own):
                yield f'{file} says to link {link[1]}, and docs/installing.md {row[1] if row else own}'


def main():
    tree = Tree(pathlib.Path(sys.argv[1]).resolve())
    if len(tree.files) < 100:
        sys.exit('no repository there')
    errors = [*missing(tree), *missing_places(tree), *missing_functions(tree),
              *wrong_libraries(tree)]
    print('\n'.join(errors) or 'every file and library that is named is there')
    sys.exit(bool(errors))


if __name__ == '__main__':
    main()
