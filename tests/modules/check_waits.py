#!/usr/bin/env python3
"""check_waits.py SOURCE_DIR: fails if a function of src waits for other ranks in an MPI call without reporting it (Waiting of
base/activity.hpp): the watchdog would mistake its polling for work. Benchmarks are not checked."""
import pathlib
import re
import sys

WAITS = re.compile(
    r"MPI_(?:Bcast|Barrier|(?:All)?[Gg]atherv?|(?:All)?[Rr]educe|Alltoall[vw]?|Scatterv?|Recv|Send|Wait(?:all|any|some)?|Probe"
    r"|Comm_(?:dup|split|split_type|create|create_group))\("
    r"|boost::mpi::(?:broadcast|all_gather|gather|reduce|all_reduce|scatter|all_to_all)\(|\bworld\.barrier\(\)")
REPORTED = re.compile(r'\bWaiting \w+\(|return make_communicator\("')  # make_communicator reports for its callers


def functions_of(text):
    """Yields pieces of the text that end with a brace in the first column: each has one function, perhaps with some lines
    before it."""
    first = 1
    for stretch in re.split(r"(?<=\n\})", text):
        yield first, stretch
        first += stretch.count("\n")


def main():
    source = pathlib.Path(sys.argv[1])
    errors, waits = [], 0
    for file in sorted((source / "src").rglob("*.cpp")):
        for first, function in functions_of(file.read_text()):
            found = WAITS.search(function)
            waits += found is not None
            if found and not REPORTED.search(function):
                line = first + function[: found.start()].count("\n")
                errors.append(f"{file.relative_to(source)}:{line}: waits in {found.group().rstrip('(')} and does not report it")
    if waits == 0:
        sys.exit("no calls found")
    print("\n".join(errors) or f"{waits} functions wait for other ranks, and all report it")
    sys.exit(bool(errors))


if __name__ == "__main__":
    main()
