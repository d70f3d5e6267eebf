"""parity.py PROCESSES: prints two tables. CTest runs it on 1, 2, 4 and 8 processes.

The first table counts the vectors of tests/golden, which were written by other projects' own code. The drop-in functions are
called in that number of processes of torch.distributed (gloo), which divide the cases among them; cases with several
data-parallel ranks are run by that number of processes together. The second table compares the service over mpi4py and over
torch.distributed: every byte of two steps, a later pass and the results. Exits with 1 if anything differs that must be equal.
"""

import json
import os
import pathlib
import sys
from collections import Counter

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE.parent / "drop_in"), str(HERE.parent / "service")]

from golden import cases_of, difference  # noqa: E402
from golden_families import FAMILIES, STRICT, keeps_promise, run  # noqa: E402
from jobs import processes  # noqa: E402
from jobs import run as run_job  # noqa: E402
from test_ranks import KEYS, case_for_rank  # noqa: E402
from test_service import MODES, config_of  # noqa: E402


def reference_keeps_promise(family, case):
    """Returns whether the reference's results of all ranks are known, are not errors, and are as its documentation says."""
    ranks = [case_for_rank(family, case, rank) for rank in range(len(case["input"].get("other_ranks", [])) + 1)]
    factor = {"pad_factor": case["expected"].get("pad_factor")}
    known = all(expected is not None and "error" not in expected for _, expected in ranks)
    return known and all(keeps_promise(family, given, {**factor, **expected}) for given, expected in ranks)


def judge(counts, family, case, rank, results):
    """Counts the results of a case on this rank: [strict_reference=True, default]."""
    given, expected = case_for_rank(family, case, rank) if family in KEYS else (case["input"], case["expected"])
    if expected is None:
        return  # the vectors do not contain this rank's result
    strict, default = results
    expected = {key: value for key, value in expected.items() if not key.startswith(("local_num", "other_ranks"))}
    counts["results"] += 1
    counts["strict"] += difference(expected, strict, exact_errors=family in STRICT) is None
    kept = keeps_promise(family, given, {"pad_factor": case["expected"].get("pad_factor"), **default})
    if kept and difference(expected, default, exact_errors=False) is None:
        counts["same"] += 1
    elif kept and ("defect" in case or (family in KEYS and not reference_keeps_promise(family, case))
                   or not keeps_promise(family, given, expected)):
        counts["kept"] += 1
    else:
        counts["wrong"] += 1


def own_cases(rank, size, alone):
    """Runs this process's part of the single-rank cases, and returns the counts by family; `alone` is a group of only this
    process."""
    tables = {family: Counter() for family in FAMILIES}
    number = 0
    for family in FAMILIES:
        for case in cases_of(family):
            if case["input"].get("other_ranks"):
                continue
            number += 1
            if number % size == rank:
                group = {"group": alone} if family in KEYS else {}
                results = [run(family, case["input"], strict, **group) for strict in (True, False)]
                judge(tables[family], family, case, 0, results)
    return tables


def common_cases(tables, rank, size, groups):
    """Runs the cases with several ranks on the first processes of the job."""
    for family in KEYS:
        for case in cases_of(family):
            ranks = len(case["input"].get("other_ranks", [])) + 1
            if not 1 < ranks <= size or rank >= ranks:
                continue
            given, _ = case_for_rank(family, case, rank)
            results = [run(family, given, strict, group=groups[ranks]) for strict in (True, False)]
            judge(tables[family], family, case, rank, results)


def in_a_job():
    """Runs one process of the job, and prints its counts."""
    import torch
    import torch.distributed as distributed

    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    rank, size = distributed.get_rank(), distributed.get_world_size()
    groups = {ranks: distributed.new_group(list(range(ranks))) for ranks in range(2, size + 1)}
    alone = [distributed.new_group([each]) for each in range(size)][rank]
    tables = own_cases(rank, size, alone)
    common_cases(tables, rank, size, groups)
    os.write(1, (json.dumps(tables) + "\n").encode())
    distributed.destroy_process_group()


def drop_ins(size):
    """Prints the first table. Returns whether all counts are as required."""
    total = {family: Counter() for family in FAMILIES}
    for process in processes([sys.executable, str(HERE / "parity.py")], size, over="torch"):
        for family, counts in json.loads(process.stdout.splitlines()[-1]).items():
            total[family].update(counts)
    print(f"Drop-in functions in {size} processes, against what the other projects' code gives")
    print(f"{'family':29} {'results':>8} {'strict: same':>13} {'default: same':>14} {'promise kept instead':>21} {'wrong':>6}")
    for family, counts in total.items():
        print(f"{family:29} {counts['results']:8} {counts['strict']:13} {counts['same']:14} {counts['kept']:21} {counts['wrong']:6}")
    strict = all(counts["strict"] == counts["results"] for family, counts in total.items() if family in STRICT)
    return strict and all(counts["results"] > 0 and not counts["wrong"] for counts in total.values())


def service(size):
    """Prints the second table. Returns whether all bytes are the same."""
    print(f"\nThe service in {size} processes, over mpi4py and over torch.distributed")
    print(f"{'mode':29} {'tokens':>8} {'bytes':>13} {'results':>14}")
    modes = [mode for mode, sections in MODES.items() if size > 1 or "mesh" not in sections]  # a mesh needs two ranks
    configs = [config_of(mode) for mode in modes]
    over_mpi, over_torch = (run_job("steps.py", size, over=over, arguments=configs) for over in ("mpi", "torch"))
    fine = True
    for number, mode in enumerate(modes):
        mpi, torch = ([rank["results"][number] for rank in ranks] for ranks in (over_mpi, over_torch))
        collected = all(rank["collected"] and rank["exact"] and rank["grouped"] for rank in mpi)
        tokens = sum(rank["tokens"] for rank in mpi)
        fine = fine and torch == mpi and collected and tokens > 0
        print(f"{mode:29} {tokens:8} {'the same' if torch == mpi else 'differ':>13} {'returned' if collected else 'wrong':>14}")
    return fine


def main():
    size = int(sys.argv[1])
    fine = drop_ins(size)
    sys.exit(0 if service(size) and fine else 1)


if "RANK" in os.environ:
    in_a_job()
else:
    main()
