"""Defines a job: its configuration and its samples."""

import dataclasses
import math


@dataclasses.dataclass
class Field:
    """A field of samples."""

    name: str
    kind: str  # token, response_token, sample, rows, text or bytes
    dtype: str
    trailing: tuple[int, ...] = ()
    written: str = "plain"  # representation in JSON lines
    settings: dict = dataclasses.field(default_factory=dict)  # the field's settings under `fields`

    @property
    def is_counted(self) -> bool:
        return self.kind in ("rows", "text", "bytes")


@dataclasses.dataclass
class Sample:
    prompt: list[int]
    response: list[int]
    uid: int | str | None
    values: dict[str, list[list]] = dataclasses.field(default_factory=dict)  # a list of elements per row
    number: int = 0  # the sample_index

    @property
    def tokens(self) -> list[int]:
        return self.prompt + self.response


@dataclasses.dataclass
class Source:
    name: str
    kind: str
    samples: list[Sample]
    epochs: int = 1
    is_padded: bool = False  # tensors are padded to a rectangle


@dataclasses.dataclass
class Job:
    seed: int
    ranks: int
    config: dict
    sources: list[Source]
    fields: list[Field]
    profiles: list[str]
    results: bool = False
    is_resumed: bool = False  # The job is stopped after its first step and resumed.
    must_be_refused: bool = False

    def key(self, path: str, default=None):
        section, name = path.split(".")
        return self.config.get(section, {}).get(name, default)

    def settings(self, profile: str) -> "Settings":
        return Settings(self, profile)


class Settings:
    """Settings of a pass: those of its profile take precedence over the configuration's."""

    def __init__(self, job: Job, profile: str):
        self._job, self._own = job, job.config.get("profiles", {}).get(profile, {})

    def key(self, path: str, default=None):
        section, name = path.split(".")
        return self._own.get(section, {}).get(name, self._job.key(path, default))

    @property
    def is_flexible(self) -> bool:
        return self._job.key("mesh.cp") == "flexible"

    @property
    def has_free_counts(self) -> bool:
        """Returns whether DP ranks may have different numbers of micro-batches."""
        return self.key("micro_batch.equal_counts") == "auto" and self.key("balance.meet") == "step"

    @property
    def zigzag(self) -> bool:
        return self.key("pack.cp_layout", "zigzag") == "zigzag"

    @property
    def delivers_samples(self) -> bool:
        """Returns whether samples are delivered without pad rows."""
        return self.key("pack.deliver") == "samples"

    def alignment(self, group: int) -> int:
        """Returns the number of which padded lengths are multiples, in a group of `group` context-parallel ranks."""
        tp = self._job.key("mesh.tp", 1)
        chunks = 1 if group == 1 else group * (2 if self.zigzag else 1)
        rounding = self.key("pack.align_lcm", 1)
        if self.key("micro_batch.mode") == "padded":
            rounding = math.lcm(rounding, self.key("micro_batch.length_round", 64))
        align = self.key("pack.align", "auto")
        return math.lcm(tp * chunks if align == "auto" else align, rounding)

    def cap(self, group: int) -> int:
        """Returns the maximum number of rows of a micro-batch on `group` context-parallel ranks."""
        per_rank = self.key("micro_batch.max_tokens_per_rank")
        return self.key("micro_batch.max_tokens", 8192) if per_rank is None else per_rank * group
