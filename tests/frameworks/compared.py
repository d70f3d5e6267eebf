"""Shared by tests of evenkeel.compare, which run it as users do, on lengths of one step."""

import pathlib
import random
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/docs"))
COLUMNS = ["micro-batches", "above cap", "fullest", "padding", "cut", "once", "each", "ms"]


def run(arguments, folder):
    command = [sys.executable, "-m", "evenkeel.compare", *arguments]
    return subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True).stdout


def table(packages, folder, *, seed, samples, longest, dp, cap):
    """Returns, for each way, the numbers of its row."""
    draw = random.Random(seed)
    lengths = [max(16, min(longest, round(draw.lognormvariate(7.5, 1)))) for _ in range(samples)]
    (folder / "lengths.csv").write_text("length\n" + "".join(f"{length}\n" for length in lengths))
    printed = run(["lengths.csv", "--with", packages, "--dp", str(dp), "--max-tokens", str(cap)], folder)
    _, _, _, *rows, legend = printed.splitlines()  # tokens that are missing or repeated would be reported below the legend
    assert legend.startswith("once, at each:")
    found = {}
    for row in rows:
        name, *cells = re.split(r" {2,}", row)
        found[name] = {column: float(cell.replace(",", "").rstrip("%")) for column, cell in zip(COLUMNS, cells, strict=True)}
    return found


def check_that_none_ends_earlier(rows):
    once, each, *others = rows.values()
    for ours in (once, each):
        assert ours["above cap"] == ours["cut"] == ours["padding"] == 0 and ours["fullest"] <= 1
    for theirs in others:
        if theirs["above cap"] == theirs["cut"] == 0:
            assert once["once"] <= theirs["once"] and each["each"] <= theirs["each"]


def check_page(packages, folder):
    """Checks that docs/start.md shows what these packages print for the lengths made by its Python."""
    import outputs

    page = (ROOT / "docs/start.md").read_text(encoding="utf-8")
    for file, code in re.findall(r"\$ python3 - >(\S+) <<'END'\n(.*?\n)END\n", page, re.DOTALL):
        (folder / file).write_text(subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True).stdout)
    options, shown = re.search(rf"\$ python3 -m evenkeel.compare (\S+ --with {packages} .*)\n([^`]*)```", page).groups()
    # Columns are wider if a time has more digits.
    lines = [re.sub(" +", " ", text).splitlines() for text in (shown, run(options.split(), folder))]
    assert not outputs.differences(*lines)
