"""Checks that a job that reads a dump as its source delivers the samples that the dump contains."""

from expected import Entry
from jobs import Field, Job, Sample, Source


def _is_whole(field: Field, job: Job) -> bool:
    """Returns whether the pipeline stages together have all layers of the field."""
    lists = field.settings.get("layers", "stage")
    return lists == "stage" or {layer for own in lists for layer in own} == set(range(field.trailing[0]))


def _can_be_read(job: Job, checks) -> bool:
    if job.key("prefix.share") or len(job.profiles) > 1:
        return False
    if any(field.settings.get("dtype") == "narrow" or not _is_whole(field, job) for field in checks.passing.fields.values()):
        return False
    # If two samples of a step have the same number, the test cannot tell which one a dumped sequence is.
    return all(len({e.number for m in step for e in m if e}) == sum(1 for m in step for e in m if e) for step in checks.entries)


def _sample(entry: Entry, number: int, fields: list[Field]) -> Sample:
    uid = None if entry.sample.uid is None else repr(entry.group)
    values = {field.name: entry.moved_rows(field) for field in fields}
    return Sample(entry.tokens[:entry.prompt], entry.tokens[entry.prompt:], uid, values, number)


def job_of_dump(job: Job, checks, ranks: int) -> Job | None:
    """Returns a small job whose source is the dump of `job`, or None if that dump cannot be read."""
    if not _can_be_read(job, checks):
        return None
    fields = [Field(field.name, field.kind, field.dtype, field.trailing) for field in checks.passing.fields.values()]
    entries = [e for step in checks.entries for e in sorted((e for m in step for e in m if e), key=lambda e: e.number)]
    # The dump stores values after the job moved them, so the settings of the dumped fields decide what is expected.
    dumped = list(checks.passing.fields.values())
    samples = [_sample(entry, number, dumped) for number, entry in enumerate(entries)]
    longest = max(len(sample.tokens) for sample in samples)
    config = {"mesh": {"cp": ranks}, "source": {"kind": "dump", "path": "dump"}, "batch": {"global_batch": len(samples)},
              "micro_batch": {"max_tokens": 4 * (longest + 4)}}
    return Job(job.seed, ranks, config, [Source("", "dump", samples)], fields, [])
