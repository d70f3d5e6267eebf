"""What a dump gives back as a source is what was handed out."""

import math

from jobs import Field, Job, Sample, Source

def _field(field: Field) -> Field:
    """Rows of response tokens stand in a dump where tokens do."""
    kind = "token" if field.kind == "response_token" else field.kind
    return Field(field.name, kind, field.dtype, field.trailing)


def _can_be_read(job: Job, checks) -> bool:
    if job.key("mesh.cp") == "flexible" or job.key("prefix.share") or job.key("mesh.pp", 1) > 1 or len(job.profiles) > 1:
        return False
    if job.key("mesh.cp", 1) > 1 and {"labels", "position_ids"} <= checks.passing.fields.keys():
        return False  # then nothing tells how sequences were cut
    for field in checks.passing.fields.values():
        if field.settings.get("hand_out") == "narrow" or field.name == "pictures" and job.key("mesh.cp", 1) > 1:
            return False
    # Equal numbers in one step leave open which is which.
    return all(len({e.number for m in step for e in m if e}) == sum(1 for m in step for e in m if e) for step in checks.entries)


def _sample(entry, number: int, passing, fields: list[Field]) -> Sample:
    mask = passing.mask(entry)
    prompt = next((t + 1 for t, value in enumerate(mask) if value), entry.length)
    sample = Sample(entry.tokens[:prompt], entry.tokens[prompt:], None, {}, number)
    for field in fields:
        own = passing.fields.get(field.name)
        if field.name == "loss_mask":
            sample.values["loss_mask"] = [[value] for value in mask]
        elif field.name == "labels":
            sample.values["labels"] = [[label] for label in passing.labels(entry)]
        elif own.kind in ("token", "response_token"):
            sample.values[field.name] = entry.placed(own, [0] * math.prod(own.trailing))
        else:
            sample.values[field.name] = entry.rows(own)
    return sample


def job_of_dump(job: Job, checks, ranks: int) -> Job | None:
    """A small job whose source is what another one has dumped, or None where such a dump cannot be read."""
    if not _can_be_read(job, checks):
        return None
    passing = checks.passing
    fields = [_field(field) for field in passing.fields.values() if field.name != "loss_mask"]
    fields.append(Field("loss_mask", "token", "F32"))
    entries = [e for step in checks.entries for e in sorted((e for m in step for e in m if e), key=lambda e: e.number)]
    samples = [_sample(entry, number, passing, fields) for number, entry in enumerate(entries)]
    longest = max(len(sample.tokens) for sample in samples)
    config = {"mesh": {"cp": ranks}, "source": {"kind": "dump", "path": "dump"}, "batch": {"global_batch": len(samples)},
              "micro_batch": {"max_tokens": 4 * (longest + 4)}}
    return Job(job.seed, ranks, config, [Source("", "dump", samples)], fields, [])
