"""Checks that `evenkeel plan` and `evenkeel run` make the same plan for the same samples."""

import collections
import json
import pathlib
import subprocess

from dumps import require
from jobs import Job


def can_be_planned(job: Job) -> bool:
    """Returns whether `evenkeel plan` has all the information it needs: it treats a table as one step, and knows only lengths
    and tokens."""
    source = job.sources[0]
    if "encoder" in str(job.key("balance.cost")):
        return False
    # A table has a number for each sample in a column.
    of_table = [field.name for field in job.fields if field.kind == "sample" and field.dtype[0] in "IU"]
    named = list(job.key("micro_batch.max_rows", {})) + ["work"] * ("field" in str(job.key("balance.cost")))
    if any(name not in of_table for name in named):
        return False
    return (len(job.sources) == 1 and source.kind in ("jsonl", "lengths", "megatron") and source.epochs == 1
            and job.key("batch.global_batch") >= len(source.samples)
            and job.key("batch.too_long", "error") == "error" and job.key("batch.empty", "keep") != "drop")


def depends_on_owners(job: Job, profile: str) -> bool:
    settings = job.settings(profile)
    draws = settings.key("micro_batch.mode") == "fixed" and settings.key("micro_batch.shuffle")
    return draws and is_placed(job, profile)


def is_placed(job: Job, profile: str) -> bool:
    """Returns whether the numbers of DP ranks depend on which ranks hold which samples."""
    settings = job.settings(profile)
    return settings.key("balance.placement", "locality") == "locality" and settings.key("balance.preset", "none") == "none"


def run_plan(program: str, job: Job, folder: pathlib.Path, *options: str):
    """Returns the output of `evenkeel plan` for a job with these options."""
    own = job.config["source"]
    lengths = own["path"] + (".idx" if own["kind"] == "megatron" else "")
    command = [program, "plan", "--lengths", lengths, "--config", "job.yaml", "--ranks", str(job.ranks), "--json",
               "plan.json", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    require(done.returncode == 0, "evenkeel plan", *options, "ends with", done.returncode, "and says:", done.stderr)
    return json.loads((folder / "plan.json").read_text(encoding="utf-8"))


def check_comparison(program: str, job: Job, folder: pathlib.Path) -> None:
    """Compares ways to share the job's prefixes: time is never less than work, and the work of trees is never less than what
    the cap allows. (Trees declared by samples may share less than prompts do.)"""
    by_lengths = not job.key("micro_batch.max_rows") and "field" not in str(job.key("balance.cost"))
    is_table = len(job.sources) == 1 and job.sources[0].kind == "jsonl" and job.sources[0].samples
    # A comparison sets balance.meet: step, which some settings of flexible groups refuse.
    can_meet_once = job.key("mesh.cp") != "flexible"
    is_read_whole = job.key("batch.too_long", "error") == "error"
    if not (job.key("prefix.share") and by_lengths and is_table and can_meet_once and is_read_whole):
        return
    for way in run_plan(program, job, folder, "--compare"):
        if "share" not in way:
            continue
        ends = [way[key] for key in ("end_over_bound_once", "end_over_bound_every_micro_batch") if way[key] is not None]
        least = (way["share"] == "tree" and way["least_work_over_bound"]) or 0
        rounding = 1 + 1e-6
        require(ends and least <= way["work_over_bound"] * rounding and way["work_over_bound"] <= min(ends) * rounding,
                "evenkeel plan --compare has no times, times below the work, or work below the least possible:", way)


def check_plan(program: str, job: Job, passes: list, folder: pathlib.Path) -> None:
    check_comparison(program, job, folder)
    if not can_be_planned(job):
        return
    for profile, checks in zip(job.profiles or [""], passes):
        plan = run_plan(program, job, folder, *(["--profile", profile] if profile else []))
        step = checks.steps[0]
        if depends_on_owners(job, profile):
            continue
        if "data_ranks" in plan:
            of_plan = collections.Counter((m["first_rank"], m["size"], *m["samples"]) for m in plan["micro_batches"])
            ran = collections.Counter((m.first, m.size, *(sample for sample in m.samples if sample >= 0))
                                      for m in step.micro_batches if not m.is_empty)
        else:
            of_plan = collections.Counter(tuple(tuple(m["samples"]) for m in rank["micro_batches"]) for rank in plan["ranks"])
            of_ranks = [[] for _ in step.counts]
            for m in step.micro_batches:
                of_ranks[m.first].append(tuple(sample for sample in m.samples if sample >= 0))
            ran = collections.Counter(map(tuple, of_ranks))
            if not is_placed(job, profile):
                require([list(map(list, rank)) for rank in of_ranks] ==
                        [[m["samples"] for m in rank["micro_batches"]] for rank in plan["ranks"]],
                        "evenkeel plan assigns samples to other DP ranks or micro-batches than evenkeel run")
            require(plan["num_micro_batches"] == max(step.counts), "evenkeel plan has", plan["num_micro_batches"],
                    "micro-batches,", "evenkeel run", max(step.counts))
        require(of_plan == ran, "evenkeel plan has", dict(of_plan - ran), "but evenkeel run has", dict(ran - of_plan))
