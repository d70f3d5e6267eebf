"""Runs a reader's shell in a clone of the project that looks like a reader's after building.

The clone is a copy of the tracked files. Its build/release links to the folder in which the program was built, so nothing is
built twice; launch/build.sh and launch/install-packages.sh are replaced by scripts that only check their arguments. HOME is an
empty folder, and of the caller's environment only the locations of tools are passed on. python3 has NumPy, and the terminal is
so wide that no line is broken.
"""

import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys

import pages

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
TIMEOUT = 300


def python_with_numpy() -> str:
    """Returns the interpreter that runs this script if it has NumPy, else the system's."""
    for python in (sys.executable, "/usr/bin/python3"):
        tried = subprocess.run([python, "-c", "import numpy"], capture_output=True, check=False)
        if tried.returncode == 0:
            return python
    raise pages.PageError("no Python here has NumPy; launch/install-packages.sh --tests installs it")


def make_clone(root: pathlib.Path, build: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    clone = folder / "evenkeel"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "home").mkdir(parents=True)
    (folder / "bin").mkdir()
    python = folder / "bin" / "python3"
    python.write_text(f"#!/bin/sh\nexec '{python_with_numpy()}' \"$@\"\n", encoding="utf-8")
    python.chmod(0o755)
    for name in _files_of(root):
        target = clone / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / name, target, follow_symlinks=False)
    (clone / "build").mkdir()
    (clone / "build" / "release").symlink_to(build.resolve())
    for name in ("build.sh", "install-packages.sh"):
        stand_in = root / "tests" / "docs" / "stand_ins" / name
        (clone / "launch" / name).unlink()
        shutil.copy2(stand_in, clone / "launch" / name)
    return clone


def _files_of(root: pathlib.Path) -> list[str]:
    """Returns the files of a clone: those that git tracks or would track, or all but build/ if there is no git."""
    if shutil.which("git"):
        list_files = ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(list_files, capture_output=True, text=True, check=False)
        if listed.returncode == 0 and listed.stdout:
            return [name for name in listed.stdout.split("\0") if name and (root / name).is_file()]
    found = (path.relative_to(root) for path in root.rglob("*") if path.is_file())
    return [str(path) for path in found if path.parts[0] not in ("build", ".git")]


class Session:
    """A bash process that runs one command after another."""

    def __init__(self, folder: pathlib.Path, clone: pathlib.Path):
        self._folder = folder
        path = f"{folder / 'bin'}:{SYSTEM_PATH}"
        for tool in ("cmake", "mpirun", "c++"):
            place = shutil.which(tool)
            if place and os.path.dirname(place) not in path.split(":"):
                path += ":" + os.path.dirname(place)
        environment = {"PATH": path, "HOME": str(folder / "home"), "LC_ALL": "C.UTF-8", "TERM": "dumb"}
        environment["COLUMNS"] = "300"
        self._shell = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=clone,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # Here bash may report at any time that a background process was killed.
            text=True,
            start_new_session=True,
        )

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        try:
            os.killpg(self._shell.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._shell.wait()

    def run(self, text: str, timeout: float = TIMEOUT) -> tuple[int, list[str]]:
        """Returns the exit status and the printed lines. Raises TimeoutError, after which the shell has ended."""
        typed, printed = self._folder / "command", self._folder / "printed"
        typed.write_text(text + "\n", encoding="utf-8")
        assert self._shell.stdin and self._shell.stdout
        # The shell itself runs the command, so variables and the current folder remain for later commands.
        self._shell.stdin.write(f"source '{typed}' </dev/null >'{printed}' 2>&1; echo $?\n")
        self._shell.stdin.flush()
        ready, _, _ = select.select([self._shell.stdout], [], [], timeout)
        if not ready:
            raise TimeoutError(text)
        status = self._shell.stdout.readline().strip()
        lines = printed.read_text(encoding="utf-8", errors="replace").splitlines()
        if not status.isdigit():
            raise pages.PageError(f"the shell is gone after: {text}")
        return int(status), lines

    def starts(self, text: str, seconds: float = 5) -> tuple[int, list[str]]:
        """Starts the command and stops it after `seconds`. Returns its status, or 0 if it was still running, and its output."""
        exported = dict(line.split("=", 1) for line in self.run("env")[1] if "=" in line)
        started = subprocess.Popen(
            ["bash", "--noprofile", "--norc", "-c", text],
            cwd=self.folder(),
            env=exported,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = started.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, signal.SIGTERM)
            try:
                started.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                os.killpg(started.pid, signal.SIGKILL)
                started.wait()
            return 0, []
        return started.returncode, output.splitlines()

    def folder(self) -> pathlib.Path:
        return pathlib.Path(self.run("pwd")[1][0])
