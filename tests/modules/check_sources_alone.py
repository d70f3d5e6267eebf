#!/usr/bin/env python3
"""Compiles sources one by one, without unity build and precompiled header, so missing includes become errors.

    check_sources_alone.py SOURCE_DIR BUILD_DIR [TURN/TURNS]

BUILD_DIR is a separate build folder. With 3/7, compiles every seventh source, beginning with the third. Exit status: 0 if all
sources compile, else 1.
"""

import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys


def compiles(entry: dict) -> bool:
    words = [word for word in shlex.split(entry["command"]) if not word.startswith("-O")]
    run = subprocess.run([*words[: words.index("-o")], "-fsyntax-only", entry["file"]], cwd=entry["directory"], check=False)
    if run.returncode != 0:
        print(f"{entry['file']} does not compile alone", file=sys.stderr)
    return run.returncode == 0


def main() -> int:
    source, build = (pathlib.Path(name).resolve() for name in sys.argv[1:3])
    turn, turns = (int(number) for number in (sys.argv[3] if len(sys.argv) > 3 else "1/1").split("/"))
    options = ["-DCMAKE_UNITY_BUILD=OFF", "-DEVENKEEL_BUILD_TESTS=OFF", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
               "-DEVENKEEL_WARNINGS_AS_ERRORS=ON", "-DCMAKE_BUILD_TYPE=Debug", "-G", "Ninja"]
    subprocess.run(["cmake", "-S", source, "-B", build, *options], check=True, stdout=subprocess.DEVNULL)
    commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    folders = (f"{source}/src/", f"{source}/bench/")
    ours = {entry["file"]: entry for entry in commands if entry["file"].startswith(folders)}
    chosen = [ours[file] for file in sorted(ours)][turn % turns :: turns]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(compiles, chosen))
    print(f"{sum(results)} of {len(results)} sources compile alone ({len(ours)} in all)")
    return 0 if all(results) and results else 1


if __name__ == "__main__":
    sys.exit(main())
