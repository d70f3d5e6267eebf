"""Compares shown output with real output, and renews shown output.

Lines must be equal, except for parts that differ between runs and machines:
- times: a number before ` s`, ` ms`, ` us` or ` seconds`; numbers with a decimal point in a line that contains `seconds`;
  the last number of each row under a heading that ends in `seconds` or `ms`
- speeds: a number before `tokens/s` or `GB/s`
- the maximum memory of tensors on a rank, since prefetching may be further ahead in one run than in another
- dates, times of day, process ids and the name of the machine

In a line with such a number, repeated blanks count as one, and a row of seconds may be broken anywhere. A line `...` matches
any number of lines, including none. Log lines begin with a time of day in brackets and go to standard error. They are compared
only if the page shows some: each of these must occur, in that order.
"""

import difflib
import re
import socket

ELLIPSIS = "..."
NUMBER = r"\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?"
LOG = re.compile(r"^\[\d\d:\d\d:\d\d[.\d]*\]")
VARYING = [
    (re.compile(rf"\b{NUMBER}(?= (?:s|ms|us|seconds?)\b)"), "TIME"),
    (re.compile(rf"\b{NUMBER} ?[kMGT]?(?= ?(?:tokens|GB|B)/s\b)"), "SPEED"),
    (re.compile(r"(?<=most memory of tensors on a rank)( +)[\d.]+ [KMGT]iB"), " MEMORY"),
    (re.compile(r"\b\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d:\d\d(?:\.\d+)?)?(?:Z| UTC)?"), "DATE"),
    (re.compile(r"\b\d\d:\d\d:\d\d(?:\.\d+)?"), "CLOCK"),
    (re.compile(r"\b(?:pid|process) \d+"), "PID"),
    (re.compile(rf"\b{re.escape(socket.gethostname())}\b"), "HOST"),
]
DECIMAL = re.compile(r"\b\d+\.\d+\b")
LAST_NUMBER = re.compile(rf"{NUMBER}$")
TIMED_HEADING = re.compile(r"^\D+ (?:seconds|ms)$")  # A column heading has no number, unlike some titles.


def mask_varying(lines: list[str]) -> list[str]:
    """Returns the lines with placeholders for the parts that may differ."""
    result = []
    timed_column = False
    for line in _join_rows_of_seconds(lines):
        text = line
        for pattern, stand_in in VARYING:
            text = pattern.sub(stand_in, text)
        if re.search(r"\bseconds\b", text):
            text = DECIMAL.sub("TIME", text)
        if timed_column:
            text = LAST_NUMBER.sub("TIME", text)
        timed_column = bool(text) and (timed_column or bool(TIMED_HEADING.search(line)))
        result.append(" ".join(text.split()) if text != line else line)
    return result


def _join_rows_of_seconds(lines: list[str]) -> list[str]:
    """Joins rows of seconds, which are broken at places that depend on the widths of their numbers."""
    result: list[str] = []
    for line in (line.rstrip() for line in lines):
        if result and result[-1].lstrip().startswith("seconds") and line.startswith(" " * 20):
            result[-1] += " " + line.strip()
        else:
            result.append(line)
    return result


def differences(shown: list[str], real: list[str]) -> str:
    """Describes the differences between shown and real output; empty if there are none."""
    shown_log, shown_rest = _split_log(shown)
    real_log, real_rest = _split_log(real)
    if shown == [] or (_matches(shown_rest, real_rest) and _in_order(shown_log, real_log)):
        return ""
    if not shown_log:
        real = real_rest
    return "\n".join(difflib.unified_diff(mask_varying(shown), mask_varying(real), "shown on the page", "printed", lineterm=""))


def renew(shown: list[str], real: list[str]) -> list[str]:
    """Returns the updated output: omitted lines stay omitted, and the last lines shown extend to the end."""
    real = [line.rstrip() for line in real]
    shown_log, _ = _split_log(shown)
    if not shown_log:
        real = _split_log(real)[1]
    if ELLIPSIS not in (line.strip() for line in shown):
        return real
    result: list[str] = []
    at = 0
    runs = _runs(shown)
    for index, run in enumerate(runs):
        if run is None:
            result.append(ELLIPSIS)
        elif index == len(runs) - 1 and index > 0:
            at = _most_similar(run[:1], real, at)
            result += real[at:]
        else:
            at = _most_similar(run, real, at) if index > 0 else 0
            result += real[at : at + len(run)]
            at += len(run)
    return result


def _split_log(lines: list[str]) -> tuple[list[str], list[str]]:
    return [line for line in lines if LOG.match(line)], [line for line in lines if not LOG.match(line)]


def _matches(shown: list[str], real: list[str]) -> bool:
    wanted, given = mask_varying(shown), mask_varying(real)
    # reachable[j]: the shown lines so far match the first j real lines.
    reachable = [True] + [False] * len(given)
    for line in wanted:
        if line.strip() == ELLIPSIS:
            first = reachable.index(True) if True in reachable else len(reachable)
            reachable = [j >= first for j in range(len(reachable))]
        else:
            reachable = [False] + [reachable[j] and given[j] == line for j in range(len(given))]
    return reachable[-1]


def _in_order(shown: list[str], real: list[str]) -> bool:
    remaining = iter(mask_varying(real))
    return all(line in remaining for line in mask_varying(shown))


def _runs(shown: list[str]) -> list[list[str] | None]:
    """Returns runs of shown lines, with None for each ellipsis between them."""
    runs: list[list[str] | None] = []
    for line in shown:
        if line.strip() == ELLIPSIS:
            runs.append(None)
        elif runs and runs[-1] is not None:
            runs[-1].append(line)
        else:
            runs.append([line])
    return runs


def _most_similar(run: list[str], real: list[str], begin: int) -> int:
    """Returns the index, at least `begin`, at which the real lines are most similar to these, ignoring numbers."""

    def similarity(at: int) -> float:
        pairs = zip(run, real[at : at + len(run)])
        texts = ([re.sub(NUMBER, "", line) for line in pair] for pair in pairs)
        return sum(difflib.SequenceMatcher(None, a, b).ratio() for a, b in texts)

    return max(range(begin, max(begin + 1, len(real) - len(run) + 1)), key=similarity)
