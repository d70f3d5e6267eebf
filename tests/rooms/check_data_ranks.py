#!/usr/bin/env python3
"""check_data_ranks.py SOURCE_DIR: fails when code outside the room data_ranks asks for data ranks, unless it is listed here
with its reason, and when an entry of the list asks no more. Their number decides in one place, data_ranks/choice.cpp, what
services, streams and prefetchers do."""
import pathlib
import re
import sys

ROOM = ("src/data_ranks/", "include/evenkeel/data_ranks/")
MAY_ASK = {
    "include/evenkeel/config/config.hpp": "the key",
    "src/config/config.cpp": "the key: how many ranks it leaves to the grid",
    "src/config/keys.cpp": "the key, by its name",
    "include/evenkeel/mesh/mesh.hpp": "a mesh has ranks without a place",
    "src/mesh/mesh.cpp": "a mesh has ranks without a place",
    "src/exchange/samples/exchange_figures.hpp": "a figure: bytes that ranks without a place sent",
    "src/exchange/samples/exchange_figures.cpp": "a figure: bytes that ranks without a place sent",
    "src/exchange/samples/sample_exchange.cpp": "a figure: bytes that ranks without a place sent",
    "src/service/step_record.hpp": "the same figure, for the report",
    "src/service/step/exchanged.cpp": "the same figure, for the report",
    "src/report/gather_ranks.cpp": "the report has them: links and bytes",
    "src/report/run_report.hpp": "the report has their number",
    "src/report/run_report.cpp": "the report has their number",
    "src/job/job.cpp": "the report has their number",
    "src/page/step_picture.hpp": "the page draws their links",
    "src/page/step_picture.cpp": "the page draws their links",
    "src/page/page_json.cpp": "the page draws their links",
    "src/cli/commands/bench_command.cpp": "the option of a benchmark",
    "src/cli/commands/serve_command.cpp": "is the program of a data rank, and says how many there are",
}
NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|^\s*#\s*include[^\n]*|"(?:\\.|[^"\\\n])*"', re.DOTALL | re.MULTILINE)
ASKS = re.compile(r"\b\w*data_ranks\w*\b")


def main():
    source = pathlib.Path(sys.argv[1])
    found = {}
    for top in ("src", "include", "python/bindings"):
        for file in sorted((source / top).rglob("*.?pp")):
            name = str(file.relative_to(source))
            asked = ASKS.findall(NOT_CODE.sub("", file.read_text()))
            if asked:
                found[name] = len(asked)
    inside = {name for name in found if name.startswith(ROOM)}
    if not inside:
        sys.exit("nobody asks, not even the room: the search is wrong")
    outside = set(found) - inside
    errors = [f"{name} asks for data ranks: let the room data_ranks do it" for name in sorted(outside - set(MAY_ASK))]
    errors += [f"{name} asks for data ranks no more: take it off the list" for name in sorted(set(MAY_ASK) - outside)]
    print("\n".join(errors) or f"{sum(found[name] for name in outside)} questions in {len(outside)} files, all with a reason")
    sys.exit(bool(errors))


if __name__ == "__main__":
    main()
