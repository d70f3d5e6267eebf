"""Draws random fields, and their values in samples."""

import math
import os

from jobs import Field, Sample, Source


def hash_of(values: list[int]) -> int:
    """Returns a hash of the values."""
    hashed = 17
    for value in values:
        hashed = (hashed * 1000003 + value + 1) % 2147483647
    return hashed


def eighths(number: int) -> float:
    """Returns a real number that every floating-point dtype represents exactly."""
    return (number % 4001 - 2000) / 8 + 0.125


class FieldDrawing:
    """Adds the fields of a job to Drawing, which draws everything else."""

    def _draw_fields(self) -> None:
        self.fields: list[Field] = []
        self.num_segments = 0
        if not self.has_fields:
            return
        # Dtypes that all sources of the job can store.
        small = "I64" if "jsonl" in self.kinds else self.draw.choice(["I16", "I32", "I64", "U8"])
        real = "F32" if "jsonl" in self.kinds else self.draw.choice(["F32", "F64"])
        mask = self.draw.choice(["BOOL", "I64", "F32"])
        stage = {"stage": self.draw.choice(["last", "first", "all"])}
        narrow = {"wire_dtype": "narrow", "dtype": self.draw.choice(["original", "narrow"])}
        pool = [
            Field("advantages", "response_token", real),
            Field("reward", "sample", real, settings=dict(stage)),
            Field("turn", "token", small, settings=dict(narrow)),
            Field("old_log_probs", "token", real, settings={"at": self.draw.choice(["token", "next"])}),
            Field("pair", "token", real, (2,), settings=dict(stage)),
            Field("versions", "response_token", "I64", written="runs", settings=dict(narrow)),
            Field("axes", "token", "I64", (3,), written="axes"),
            Field("experts", "token", small, (4, 2), settings={"layers": self._layers(4), **self.draw.choice(
                [narrow, {"wire_dtype": "narrow", "spread_pads": self.draw.choice([2, 3, 5])}])}),
            Field("layered", "response_token", real, (4, 1), settings={"layers": self._layers(4)}),
            Field("patches", "rows", small, (2,), written="rows",
                  settings=dict(stage) | {"share": self.draw.choice(["none", "equal"])}),
            Field("origin", "text", "U8", written="text",
                  settings=dict(stage) | {"share": self.draw.choice(["none", "equal"])}),
            Field("work", self.draw.choice(["sample", "rows", "response_token"]),
                  self.draw.choice([small, real]), written="plain"),
            Field("thumb", "bytes", "U8", written="bytes", settings=dict(stage)),
            Field("pictures", "rows", real, (2,), written="rows", settings={"cut_by": "spans"}),
            Field("segment_ids", self.draw.choice(["token", "response_token"]), "I64", written="runs", settings=dict(narrow)),
            self._beside_labels("loss_mask", mask),
            self._beside_labels("labels", "I64"),
            self.draw.choice([Field("position_ids", "token", "I64"), Field("position_ids", "token", "I64", (3,), "axes")]),
        ]
        if self.sharing:  # a row that predicts several tokens cannot hold one value per token
            pool = [field for field in pool if field.name != "old_log_probs"]
        if self.get("prefix.share") != "tree":
            pool = [field for field in pool if field.name != "segment_ids"]
        needed = ["patches"] * (self.has_encoder or self.has_row_caps) + ["work"] * self.has_work
        self.fields = [field for field in pool if field.name in needed or self.chance(0.22)]
        for field in self.fields:
            if field.name == "work" and field.kind == "rows":
                field.written = "rows"
        if any(field.name == "pictures" for field in self.fields):
            self.fields.append(Field("spans", "rows", "I64", (2,), written="rows"))
        for source in self.sources:
            for number, sample in enumerate(source.samples):
                for field in self.fields:
                    sample.values[field.name] = self._values(field, sample, number == 0)
                self._fit_pictures(sample, number == 0)
            self._draw_segment_ids(source)
            if source.kind == "safetensors" and not any(field.is_counted for field in self.fields):
                source.is_padded = self.chance(0.4)
        self._draw_row_caps()
        settings = {field.name: self._settings(field) for field in self.fields}
        settings = {name: own for name, own in settings.items() if own}
        if settings:
            self.config["fields"] = settings

    def _draw_row_caps(self) -> None:
        """Draws row caps under which every single sample fits."""
        if not self.has_row_caps:
            return
        caps = {}
        for field in self.fields:
            if field.name == "patches" or field.is_counted and self.chance(0.3) and field.name != "spans":
                most = max(len(sample.values[field.name]) for source in self.sources for sample in source.samples)
                caps[field.name] = max(1, most) * self.draw.choice([1, 1, 2, 3])
        self.put("micro_batch.max_rows", caps)

    def _layers(self, count: int):
        stages = self.pp * self.get("mesh.vpp", 1)
        if count % stages == 0 and self.chance(0.5):
            return "stage"
        cuts = sorted(self.draw.choices(range(count + 1), k=stages - 1))
        return [list(range(*cut)) for cut in zip([0, *cuts], [*cuts, count])]

    def _settings(self, field: Field) -> dict:
        own = dict(field.settings) if self.chance(0.7) or "cut_by" in field.settings else {}
        if field.name in ("labels", "loss_mask", "old_log_probs"):
            own = {"at": field.settings["at"]} if "at" in field.settings else {}
        if field.name == "position_ids":
            own = {}
        if field.written != "plain" and "jsonl" in self.kinds:
            own["read_as"] = field.written
        field.settings = own
        return own

    def _beside_labels(self, name: str, dtype: str) -> Field:
        """Draws where the values belong: a file with one value per token does not say which row they belong to."""
        kind = self.draw.choice(["response_token"] if self.sharing else ["token", "response_token"])
        return Field(name, kind, dtype, settings={"at": self.draw.choice(["token", "next"]) if kind == "token" else "response"})

    def _values(self, field: Field, sample: Sample, first: bool) -> list[list]:
        width = math.prod(field.trailing)
        tokens = sample.tokens
        if field.kind == "text":
            return [[byte] for byte in self.draw.choice(["", "web", "Bücher", "a" * 300]).encode()]
        counts = {"token": len(tokens), "response_token": len(sample.response), "sample": 1, "bytes": self.draw.choice([0, 5]),
                  "rows": self.draw.choice([0, 1, 4]) + first}
        rows = []
        for t in range(counts[field.kind]):
            # Samples that share tokens must have equal values at these tokens.
            seed = hash_of(tokens[:t + 1]) if field.kind == "token" else self.draw.choice([1, 2, self.draw.randint(0, 10**6)])
            rows.append([self._element(field, seed + i) for i in range(width)])
        if field.name == "loss_mask" and field.settings["at"] == "next" and rows:
            rows[-1] = [0 if field.dtype != "F32" else 0.0]  # the last row predicts nothing
        return rows

    def _element(self, field: Field, number: int):
        if field.name == "position_ids":
            return number % 50
        if field.name == "work":
            return number % 90 * (1.0 if field.dtype in ("F32", "F64") else 1)
        if field.name == "labels" and number % 5 == 0:
            return -100
        if field.name == "loss_mask":
            return number % 3 % 2 * (1 if field.dtype != "F32" else 1.0)
        if field.dtype in ("F32", "F64"):
            return eighths(number)
        return number % (2 if field.dtype == "BOOL" else 120 if field.dtype in ("U8", "I16") else 70000)

    def _fit_pictures(self, sample: Sample, first: bool) -> None:
        """Draws spans with nondecreasing ends, each with at least one token."""
        if "pictures" not in sample.values:
            return
        length = len(sample.tokens)
        count = min(length, len(sample.values["pictures"]) + first)
        begins = sorted(self.draw.choices(range(length), k=count)) if length else []
        ends, last = [], 0
        for begin in begins:
            last = max(last, min(length, begin + self.draw.randint(1, 5)))
            ends.append(last)
        sample.values["spans"] = [[begin, end] for begin, end in zip(begins, ends)]
        sample.values["pictures"] = [[eighths(begin), eighths(end)] for begin, end in zip(begins, ends)]

    def _draw_segment_ids(self, source: Source) -> None:
        """Gives samples of a uid the same segment numbers for a part of their common prefix."""
        field = next((field for field in self.fields if field.name == "segment_ids"), None)
        drawn: dict = {}
        for number, sample in enumerate(source.samples if field else []):
            others = drawn.setdefault(number if sample.uid is None else repr(sample.uid), [])
            names: list[int] = []
            if others and self.chance(0.8):
                other, own = self.draw.choice(others)
                names = own[:self.draw.randint(0, len(os.path.commonprefix([sample.tokens, other.tokens])))]
            while len(names) < len(sample.tokens):
                self.num_segments += 1
                names = names + [self.num_segments] * self.draw.randint(1, 9)
            names = names[:len(sample.tokens)]
            others.append((sample, names))
            begin = 0 if field.kind == "token" else len(sample.prompt)
            sample.values["segment_ids"] = [[name] for name in names[begin:]]
