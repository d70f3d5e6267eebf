"""Computes what a job must deliver: its samples after filtering, and each sample's rows."""

import collections
import dataclasses
import math

from jobs import Field, Job, Sample, Settings


@dataclasses.dataclass
class Entry:
    """A sample, or a piece of one."""

    sample: Sample
    group: object
    begin: int
    end: int
    tokens: list[int]
    is_made_up: bool  # The program generated the tokens, so the test does not know them.

    @property
    def number(self) -> int:
        return self.sample.number

    @property
    def length(self) -> int:
        return self.end - self.begin

    @property
    def prompt(self) -> int:
        """Returns how many tokens of the prompt are in this entry."""
        return min(max(len(self.sample.prompt) - self.begin, 0), self.length)

    def rows(self, field: Field) -> list[list]:
        """Returns the rows as they were supplied."""
        rows = self.sample.values[field.name]
        if field.kind == "token":
            return rows[self.begin:self.end]
        if field.kind == "response_token":
            prompt = len(self.sample.prompt)
            return rows[max(0, self.begin - prompt):max(0, self.end - prompt)]
        if field.name == "spans":
            return self.spans
        if field.name == "pictures":
            return [row for row, span in zip(rows, self.sample.values["spans"]) if self._has(span)]
        return rows

    @property
    def spans(self) -> list[list[int]]:
        """Returns the token spans of the rows that go with this entry, relative to the entry's first token."""
        begin, end = self.begin, self.end
        return [[max(b, begin) - begin, min(e, end) - begin] for b, e in self.sample.values["spans"] if self._has((b, e))]

    def _has(self, span) -> bool:
        return span[0] < self.end and self.begin < span[1]

    def moved_rows(self, field: Field) -> list[list]:
        """Returns the supplied values. A value at its own token (`at: token`) moves to the row that predicts the token."""
        rows = self.rows(field)
        if field.settings.get("at") != "token" or not rows:
            return rows
        return rows[1:] + [[-100 if field.name == "labels" else 0] * math.prod(field.trailing)]

    def rows_by_token(self, field: Field, empty: list) -> list[list]:
        """Returns one row per token. The row of a response token is at the row that predicts it."""
        rows = self.moved_rows(field)
        if field.kind == "token":
            return rows
        predicted = rows if self.prompt else rows[1:]
        before = max(self.prompt - 1, 0)
        return [empty] * before + predicted + [empty] * (self.length - before - len(predicted))


class Pass:
    """Computes the rows of entries under the settings of one pass."""

    def __init__(self, job: Job, profile: str):
        self.job, self._profile = job, profile
        self.settings: Settings = job.settings(profile)
        self.fields = {field.name: field for field in job.fields
                       if field.settings.get("profiles") is None or profile in field.settings["profiles"]}
        self.cuts_pictures = "pictures" in self.fields and "cut_by" in self.fields["pictures"].settings
        self.pad_token = self.settings.key("pack.pad_token", 0)
        self.label_pad = self.settings.key("pack.label_pad", -100)

    def labels(self, entry: Entry) -> list[int]:
        field = self.fields.get("labels")
        if field is None:
            return entry.tokens[1:] + [self.label_pad] * min(1, entry.length)
        return [row[0] for row in entry.rows_by_token(field, [self.label_pad])]

    def mask(self, entry: Entry) -> list:
        field, labels = self.fields.get("loss_mask"), self.fields.get("labels")
        if field is None:
            mask = [1.0 if entry.prompt <= t + 1 < entry.length else 0.0 for t in range(entry.length)]
        else:
            mask = [row[0] for row in entry.rows_by_token(field, [0])]
        has_last_label = labels is not None and labels.kind == "token"
        if field is not None and field.kind == "token" and mask and not has_last_label:
            mask[-1] = 0  # The last row of a piece predicts nothing.
        if labels is not None:
            mask = [0 if label[0] == -100 else value for value, label in zip(mask, entry.rows_by_token(labels, [None]))]
        return mask

    def loss_tokens(self, entry: Entry) -> int:
        return sum(1 for value in self.mask(entry) if value)

    @property
    def depths(self) -> list["PassAhead"]:
        """Returns the passes of multi-token prediction, which predict tokens after the next one."""
        return [PassAhead(self.job, self._profile, k) for k in range(1, self.settings.key("pack.predict_ahead", 0) + 1)]

    def positions(self, entry: Entry) -> list[list[int]]:
        field = self.fields.get("position_ids")
        return [[t] for t in range(entry.length)] if field is None else entry.rows(field)


class PassAhead(Pass):
    """Computes the rows of multi-token prediction module k: row t has token t + k, and predicts the token after it."""

    def __init__(self, job: Job, profile: str, ahead: int):
        super().__init__(job, profile)
        self.ahead = ahead

    def inputs(self, entry: Entry) -> list[int]:
        return (entry.tokens[self.ahead:] + [self.pad_token] * self.ahead)[:entry.length]

    def labels(self, entry: Entry) -> list[int]:
        ahead = self.ahead + 1
        return (entry.tokens[ahead:] + [self.label_pad] * ahead)[:entry.length]

    def mask(self, entry: Entry) -> list:
        return [1.0 if entry.prompt <= t + 1 + self.ahead < entry.length else 0.0 for t in range(entry.length)]


def entries_of(job: Job) -> list[list[Entry]]:
    """Returns the entries that each source has in one epoch."""
    limit, fate = job.key("batch.max_length", "auto"), job.key("batch.too_long", "error")
    if limit == "auto" and fate != "error":
        limit = min(job.settings(profile).cap(job.key("mesh.cp", 1)) for profile in job.profiles or [""])
        limit = min(limit, job.key("prefix.max_path_tokens", limit))
    found = []
    for source in job.sources:
        entries = []
        for sample in source.samples:
            length = len(sample.tokens)
            if length == 0 and job.key("batch.empty") == "drop" or fate == "drop" and length > limit:
                continue
            cuts = [(0, length)]
            if fate in ("truncate", "split") and length > limit:
                cuts = [(begin, min(begin + limit, length)) for begin in range(0, length, limit)]
                cuts = cuts[:1] if fate == "truncate" else cuts
            group = (source.name, "of none", sample.number) if sample.uid is None else (source.name, sample.uid)
            for begin, end in cuts:
                entries.append(Entry(sample, group, begin, end, sample.tokens[begin:end], source.kind == "lengths"))
        found.append(entries)
    return found


class Expected:
    """Computes which entries are in which steps, as far as that does not depend on random draws."""

    def __init__(self, job: Job):
        sources = entries_of(job)
        drawn = [entry for source, entries in zip(job.sources, sources) for entry in entries * source.epochs]
        batch = job.key("batch.global_batch")
        whole, rest = divmod(len(drawn), batch)
        self.sizes = [batch] * whole + ([rest] if rest and not job.key("batch.drop_last") else [])
        self.left_out = len(drawn) - sum(self.sizes)
        self.epochs = job.key("batch.epochs", 1)
        self._drawn = drawn
        in_order = len(job.sources) == 1 and not job.key("batch.shuffle") and not job.key("batch.delay_outliers")
        self.is_in_order = in_order

    @property
    def num_steps(self) -> int:
        return len(self.sizes) * self.epochs

    def counts_of_epoch(self) -> collections.Counter:
        """Returns how often each entry may be delivered."""
        return collections.Counter(map(id, self._drawn))

    def entries_of_step(self, step: int) -> list[Entry]:
        """Returns the entries that a step may have. If the order is known, these are its own entries in source order."""
        if not self.is_in_order:
            return list({id(entry): entry for entry in self._drawn}.values())
        begin = sum(self.sizes[:step % len(self.sizes)])
        own = self._drawn[begin:begin + self.sizes[step % len(self.sizes)]]
        return sorted(own, key=lambda entry: entry.number)
