#!/usr/bin/env python3
"""Runs the commands that README, the pages of docs/ and the comments of configs/ tell readers to run, and compares their output
with the output shown.

    check_docs.py [--build DIR] [--scratch DIR] [PAGE...]     checks these pages, or all
    check_docs.py --renew [...]                               also updates shown output that is out of date

--build is a folder with the program and the examples in bin/, by default build/release. Each page has its own shell in a fresh
clone (session.py), which first runs the blocks marked `setup` in README.md. pages.py decides which blocks are run, and
outputs.py which differences are allowed. Needs bash, git, Open MPI, CMake and Python with NumPy.

Exit status: 0 if all pages are right, 1 if one is not, 2 if the check itself cannot be run.
"""

import argparse
import itertools
import pathlib
import re
import shlex
import shutil
import sys
import tempfile

import outputs
import pages
import session

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
NO_NODES = 77  # exit status of the scripts if nodes cannot be simulated
SIMULATIONS = ("launch/simulate-nodes.sh", "launch/simulate-slurm.sh")


def all_pages() -> list[str]:
    found = [*(ROOT / "docs").glob("*.md"), *(ROOT / "configs").glob("*.yaml")]
    return ["README.md", "CONTRIBUTING.md", *sorted(str(page.relative_to(ROOT)) for page in found)]


class Failure(Exception):
    """Raised if a block is not true."""


class PageCheck:
    """Checks one page in its session, and builds its new text if it is renewed."""

    def __init__(self, page: str, shell: session.Session, renew: bool):
        self.page = page
        self.not_run: list[str] = []
        self.count = 0
        self._shell = shell
        self._renew = renew
        self._lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
        self._shift = 0  # number of lines that renewal has added above the current block
        self._changed = False
        self._python_lines: list[str] = []  # lines of the page's earlier Python blocks

    def check(self, block: pages.Block) -> None:
        self.count += 1
        tasks = {
            "setup": self._script,
            "sh": self._script,
            "console": self._console,
            "status": self._console,
            "starts": self._starts,
            "yaml": self._configuration,
            "pycon": self._python,
            "file": self._file,
            "given": self._given,
            "output": self._output,
            "compiles": self._compiles,
            "not run": self._not_run,
        }
        tasks[block.task](block)

    def save(self) -> bool:
        if self._changed:
            (ROOT / self.page).write_text("\n".join(self._lines) + "\n", encoding="utf-8")
        return self._changed

    def _script(self, block: pages.Block) -> None:
        for command in block.commands():
            status, printed = self._shell.run(command.text)
            if not self._skips(block, command, status, printed):
                self._expect(command, 0, status, printed)

    def _console(self, block: pages.Block) -> None:
        wanted = int(block.detail) if block.task == "status" else 0
        for command in block.commands():
            status, printed = self._shell.run(command.text)
            if self._skips(block, command, status, printed):
                return  # The following commands depend on this one.
            self._expect(command, wanted, status, printed)
            self._compare(command, printed)

    def _starts(self, block: pages.Block) -> None:
        for command in block.commands():
            status, printed = self._shell.starts(command.text)
            if not self._skips(block, command, status, printed):
                self._expect(command, 0, status, printed)

    def _configuration(self, block: pages.Block) -> None:
        self._write(block, "shown.yaml")
        self._run(pages.Command("evenkeel config show shown.yaml", [], 0, 0), 0)

    def _python(self, block: pages.Block) -> None:
        """Runs the block after the page's earlier Python blocks, as one session."""
        if not (self._shell.folder() / "build" / "release" / "python" / "evenkeel").is_dir():
            self.not_run.append(f"{block.where}: the build has no Python package")
            return
        self._python_lines += [*block.lines, ""]
        self._shell.folder().joinpath("shown.pycon").write_text("\n".join(self._python_lines), encoding="utf-8")
        command = "python3 -m doctest --option=ELLIPSIS --option=NORMALIZE_WHITESPACE --fail-fast shown.pycon"
        self._run(pages.Command(command, [], 0, 0), 0)

    def _file(self, block: pages.Block) -> None:
        self._write(block, block.detail)

    def _given(self, block: pages.Block) -> None:
        shutil.copy(HERE / "given" / block.detail, self._shell.folder() / block.detail)

    def _output(self, block: pages.Block) -> None:
        end = block.line + len(block.lines)
        command = pages.Command(block.detail, block.lines, block.line, end)
        self._compare(command, self._run(command, 0))

    def _compiles(self, block: pages.Block) -> None:
        whole = (HERE / "snippets" / block.detail).read_text(encoding="utf-8")
        if whole.count("@SNIPPET@") != 1:
            raise pages.PageError(f"snippets/{block.detail} has no place for the snippet")
        source = self._shell.folder() / "snippet.cpp"
        source.write_text(whole.replace("@SNIPPET@", "\n".join(block.lines)), encoding="utf-8")
        text = f"mpicxx -std=c++20 -fsyntax-only -I {shlex.quote(str(ROOT / 'include'))} snippet.cpp"
        self._run(pages.Command(text, [], 0, 0), 0)

    def _not_run(self, block: pages.Block) -> None:
        self.not_run.append(f"{block.where}: {block.detail}")

    def _write(self, block: pages.Block, name: str) -> None:
        target = self._shell.folder() / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("\n".join(block.lines) + "\n", encoding="utf-8")

    def _run(self, command: pages.Command, wanted: int) -> list[str]:
        status, printed = self._shell.run(command.text)
        self._expect(command, wanted, status, printed)
        return printed

    @staticmethod
    def _expect(command: pages.Command, wanted: int, status: int, printed: list[str]) -> None:
        if status != wanted:
            output = "\n".join(printed[-30:])
            raise Failure(f"$ {command.text}\nends with status {status}, not {wanted}:\n{output}")

    def _skips(self, block: pages.Block, command: pages.Command, status: int, printed: list[str]) -> bool:
        """Returns whether the command was skipped because the machine permits no simulated nodes or has no Slurm."""
        if status != NO_NODES or not command.text.startswith(SIMULATIONS):
            return False
        self.not_run.append(f"{block.where}: {printed[-1] if printed else command.text}")
        return True

    def _compare(self, command: pages.Command, printed: list[str]) -> None:
        wrong = outputs.differences(command.shown, printed)
        if not wrong:
            return
        if not self._renew:
            raise Failure(f"$ {command.text}\nprints something else (check_docs.py --renew writes it anew):\n{wrong}")
        fresh = outputs.renew(command.shown, printed)
        begin, end = command.begin + self._shift, command.end + self._shift
        self._lines[begin:end] = fresh
        self._shift += len(fresh) - (end - begin)
        self._changed = True


def wrong_mentions(page: str, shell: session.Session) -> list[str]:
    """Returns the evenkeel commands in the text whose subcommands or options do not exist."""
    found = []
    for code in pages.inline_code(ROOT, page):
        words = code.split()
        if "evenkeel" not in words or words[0] not in ("evenkeel", "mpirun"):
            continue
        words = words[words.index("evenkeel") + 1 :]
        subcommands = list(itertools.takewhile(lambda word: re.fullmatch(r"[a-z]+", word), words))
        status, output = shell.run(" ".join(["evenkeel", *subcommands, "--help"]))
        known = re.findall(r"--[a-z-]+", "\n".join(output))
        unknown = [word for word in words if word.startswith("--") and word.split("=")[0] not in known]
        if status != 0 or unknown:
            found.append(f"{page}: `{code}` is no command of evenkeel: {' '.join(unknown) or ' '.join(output[:1])}")
    return found


def check_page(page: str, arguments: argparse.Namespace, scratch: pathlib.Path) -> PageCheck | None:
    """Returns the page's check, or None if it failed."""
    folder = scratch / page.replace("/", "_")
    clone = session.make_clone(ROOT, arguments.build, folder)
    failures = pages.broken_links(ROOT, page) + pages.missing_files(ROOT, page)
    setup = [block for block in pages.blocks_of(ROOT, "README.md") if block.task == "setup"]
    with session.Session(folder, clone) as shell:
        checked = PageCheck(page, shell, arguments.renew)
        if page != "README.md":
            for block in setup:
                PageCheck("README.md", shell, False).check(block)
        for block in pages.blocks_of(ROOT, page):
            try:
                checked.check(block)
            except Failure as failure:
                failures.append(f"{block.where}: {failure}")
            except TimeoutError as late:
                failures.append(f"{block.where}: {late}\nhas not ended after {session.TIMEOUT} s")
                break
        failures += wrong_mentions(page, shell)
    if arguments.renew and checked.save():
        print(f"{page}: written anew")
    for failure in failures:
        print(failure, file=sys.stderr)
    not_run = len(checked.not_run)
    print(f"{page}: {checked.count} blocks, {not_run} of them not run, {len(failures)} not true", flush=True)
    return None if failures else checked


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--scratch", type=pathlib.Path, help="where to work; kept afterwards")
    parser.add_argument("--renew", action="store_true")
    parser.add_argument("page", nargs="*")
    arguments = parser.parse_args()
    if not (arguments.build / "bin" / "evenkeel").exists():
        print(f"check_docs: {arguments.build} has no bin/evenkeel: build it first", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="evenkeel-docs-") as temporary:
        scratch = arguments.scratch or pathlib.Path(temporary)
        try:
            checks = [check_page(page, arguments, scratch) for page in arguments.page or all_pages()]
        except pages.PageError as error:
            print(f"check_docs: {error}", file=sys.stderr)
            return 2
    for reason in [reason for check in checks if check for reason in check.not_run]:
        print(f"not run: {reason}")
    return 0 if all(checks) else 1


if __name__ == "__main__":
    sys.exit(main())
