"""Reads the fenced blocks of a Markdown page, and the task of each block.

A block's task follows from its language, or from a comment right above the block:

    ```sh                            the commands are run, one by one; each must succeed
    ```console                       lines after `$ ` are run, and the following lines must be their output
    ```yaml                          a configuration that `evenkeel config show` must accept
    ```pycon                         lines after `>>> ` are run by one Python per page, and the following lines are their output

    <!-- check: setup -->            an sh block with which every other page begins, too
    <!-- check: status 2 -->         a console block whose commands end with that status
    <!-- check: starts: WHY -->      commands that take long: they are started, and stopped after some seconds
    <!-- check: file: NAME -->       the block is written to this file
    <!-- check: output: COMMAND -->  the block is the output of this command
    <!-- check: compiles: NAME -->   C++ that compiles in place of @SNIPPET@ in tests/docs/snippets/NAME
    <!-- check: not run: WHY -->     the block is not run; the check lists such blocks at its end

Any other block is an error, so no block is skipped by mistake. This comment on a separate line, without a block below it, means
that readers supply a file; the check takes it from tests/docs/given:

    <!-- check: given: NAME -->

A configuration is a page, too: its blocks are the commands in its comments, `#   mpirun ...`.
"""

import dataclasses
import pathlib
import re
import subprocess


class PageError(Exception):
    """Raised if a page is wrong or cannot be checked."""


@dataclasses.dataclass
class Command:
    text: str
    shown: list[str]  # the output lines on the page
    begin: int  # lines of the page with the shown output, from 0
    end: int


@dataclasses.dataclass
class Block:
    page: str
    line: int  # line of the opening fence, from 1
    language: str
    task: str  # a keyword of the list above, or the language
    detail: str  # the text after the keyword
    lines: list[str]

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"

    def commands(self) -> list[Command]:
        return _console_commands(self) if self.language == "console" else _script_commands(self)


FENCE = re.compile(r"^(\s*)```(\S*)\s*$")
CHECK = re.compile(r"^\s*<!-- check: (setup|status|starts|file|given|output|compiles|not run)(?::? (.+?))? -->$")
LANGUAGES = ("sh", "console", "yaml", "pycon")


def blocks_of(root: pathlib.Path, page: str) -> list[Block]:
    lines = (root / page).read_text(encoding="utf-8").splitlines()
    if page.endswith(".yaml"):
        found = ((number, re.match(r"#   ((?:mpirun|evenkeel|launch/).*)", line)) for number, line in enumerate(lines))
        return [Block(page, number, "sh", "sh", "", [line.group(1)]) for number, line in found if line]
    blocks = []
    opened = None
    for number, line in enumerate(lines):
        fence = FENCE.match(line)
        given = CHECK.match(line) if opened is None else None
        if fence and opened is None:
            opened = number
        elif given and given.group(1) == "given":
            blocks.append(Block(page, number + 1, "", "given", given.group(2) or "", []))
        elif fence:
            blocks.append(_block(page, lines, opened, number))
            opened = None
    if opened is not None:
        raise PageError(f"{page}:{opened + 1}: a block that does not end")
    return blocks


def _block(page: str, lines: list[str], opened: int, closed: int) -> Block:
    indent, language = FENCE.match(lines[opened]).groups()
    inside = [line.removeprefix(indent) for line in lines[opened + 1 : closed]]
    where = f"{page}:{opened + 1}"
    above = lines[opened - 1] if opened > 0 else ""
    if above.strip().startswith("<!-- check") and "check: given" not in above:
        check = CHECK.match(above)
        if check is None:
            raise PageError(f"{where}: '{above.strip()}' is no task; tests/docs/pages.py lists them")
        return Block(page, opened + 1, language, check.group(1), check.group(2) or "", inside)
    if language not in LANGUAGES:
        raise PageError(
            f"{where}: a block of '{language or 'nothing'}', which the check cannot run by itself: say what it is "
            "with a comment above it, as tests/docs/pages.py describes"
        )
    return Block(page, opened + 1, language, language, "", inside)


def _is_whole(text: str) -> bool:
    """Returns whether a shell would run this text rather than wait for more lines."""
    if text.endswith("\\"):
        return False
    looked = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
    return looked.returncode == 0 and "here-document" not in looked.stderr


def _take_command(lines: list[str], first: int, text: str, where: str) -> tuple[str, int]:
    """Returns the command that begins with `text` in line `first`, and the index of the line after it."""
    following = first + 1
    while not _is_whole(text):
        if following == len(lines):
            raise PageError(f"{where}: a command that does not end: {text}")
        text += "\n" + lines[following]
        following += 1
    return text, following


def _script_commands(block: Block) -> list[Command]:
    commands = []
    at = 0
    while at < len(block.lines):
        if not block.lines[at].strip() or block.lines[at].lstrip().startswith("#"):
            at += 1
            continue
        text, at = _take_command(block.lines, at, block.lines[at], block.where)
        commands.append(Command(text, [], block.line + at, block.line + at))
    return commands


def _console_commands(block: Block) -> list[Command]:
    commands = []
    at = 0
    if block.lines and not block.lines[0].startswith("$ "):
        raise PageError(f"{block.where}: a console block begins with '$ ' and a command")
    while at < len(block.lines):
        text, at = _take_command(block.lines, at, block.lines[at].removeprefix("$ "), block.where)
        begin = at
        while at < len(block.lines) and not block.lines[at].startswith("$ "):
            at += 1
        # A blank line before the next command belongs to the page, not to the program's output.
        end = at
        while at < len(block.lines) and end > begin and not block.lines[end - 1].strip():
            end -= 1
        commands.append(Command(text, block.lines[begin:end], block.line + begin, block.line + end))
    return commands


def inline_code(root: pathlib.Path, page: str) -> list[str]:
    """Returns the text between single backquotes, outside of blocks."""
    text = re.sub(r"^```.*?^```$", "", (root / page).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", text)]


def missing_files(root: pathlib.Path, page: str) -> list[str]:
    """Returns scripts, examples and configurations that the text names but that do not exist."""
    words = (code.split()[0] for code in inline_code(root, page))
    named = {word for word in words if re.match(r"(launch|configs|examples|tests|cmake)/[\w./-]+$", word)}
    return [f"{page}: there is no {name}" for name in sorted(named) if not (root / name).exists()]


def broken_links(root: pathlib.Path, page: str) -> list[str]:
    """Returns links to files, or to headings in them, that do not exist."""
    found = []
    text = (root / page).read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, heading = link.partition("#")
        target = (root / page).parent / name if name else root / page
        if not target.exists():
            found.append(f"{page}: the link {link} leads nowhere")
        elif heading and heading not in _headings(target):
            found.append(f"{page}: the link {link} names no heading of its page")
    return found


def _headings(page: pathlib.Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
