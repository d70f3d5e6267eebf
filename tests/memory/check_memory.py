#!/usr/bin/env python3
"""check_memory.py SUPPRESSIONS RANKS LAUNCHER... -- PROGRAM ARGUMENTS...: runs ranks of a program under valgrind's memcheck,
and fails if the program uses invalid or uninitialized memory, or leaks memory. Ignores what MPI and its threads do by
themselves: in MPI_Init and MPI_Finalize, and for attribute keys, which are created once. Exits with 77 if valgrind is not
installed."""

import collections
import pathlib
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

MPI_ITSELF = {"PMPI_Init_thread", "MPI_Init_thread", "ompi_mpi_init", "ompi_mpi_finalize", "PMPI_Comm_create_keyval",
              "MPI_Comm_create_keyval"}


def frames(error: xml.Element) -> list[tuple[str, str]]:
    """Returns function and object of each frame, innermost first."""
    return [(frame.findtext("fn", "?"), frame.findtext("obj", "?")) for frame in error.find("stack").iter("frame")]


def is_of(program: str, error: xml.Element) -> bool:
    for function, where in frames(error):
        if function in MPI_ITSELF:
            return False
        if pathlib.Path(where).name == pathlib.Path(program).name:
            return True
    return False


def describe(error: xml.Element) -> str:
    what = error.findtext("what") or error.findtext("xwhat/text", "")
    stack = "".join(f"\n    {function}  ({pathlib.Path(where).name})" for function, where in frames(error)[:16])
    return f"{error.findtext('kind')}: {what}{stack}"


def main() -> int:
    suppressions, ranks = sys.argv[1], int(sys.argv[2])
    end = sys.argv.index("--")
    launcher, command = sys.argv[3:end], sys.argv[end + 1:]
    if shutil.which("valgrind") is None:
        print("skipped: no valgrind")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        memcheck = ["valgrind", "--leak-check=full", "--show-leak-kinds=definite", "--num-callers=40", "--xml=yes",
                    f"--xml-file={folder}/%p.xml", f"--suppressions={suppressions}"]
        job = subprocess.run([*launcher, "-np", str(ranks), *memcheck, *command], check=False, stdin=subprocess.DEVNULL)
        reports = sorted(pathlib.Path(folder).glob("*.xml"))
        errors = [error for report in reports for error in xml.parse(report).getroot().findall("error")]
    ours = collections.Counter(describe(error) for error in errors if is_of(command[0], error))
    for text, times in ours.items():
        print(f"{times} times {text}")
    print(f"{len(reports)} ranks, {len(errors)} errors in all, {sum(ours.values())} of them ours; status {job.returncode}")
    return 0 if job.returncode == 0 and len(reports) == ranks and not ours else 1


if __name__ == "__main__":
    sys.exit(main())
