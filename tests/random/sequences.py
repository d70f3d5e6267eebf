"""Checks micro-batches of whole sequences: packed, padded or with a fixed number of samples."""

import math

from dumps import MicroBatch, require
from expected import Entry, Pass
from jobs import Field
from tensors import Tensor

DERIVED = ("input_ids", "labels", "position_ids", "loss_mask")


def rows_of_rank(aligned: int, rank: int, size: int, zigzag: bool) -> list[int]:
    """Returns, in order, the rows of a sequence that a context-parallel rank has."""
    if size == 1:
        return list(range(aligned))
    chunks = 2 * size if zigzag else size
    length = aligned // chunks
    own = [rank, chunks - 1 - rank] if zigzag else [rank]
    return [chunk * length + i for chunk in own for i in range(length)]


def layers_of_stage(field: Field, stage: int, job) -> list[int]:
    pp, vpp = job.key("mesh.pp", 1), job.key("mesh.vpp", 1)
    lists = field.settings["layers"]
    if lists == "stage":
        each = field.trailing[0] // (pp * vpp)
        lists = [list(range(s * each, (s + 1) * each)) for s in range(pp * vpp)]
    return [layer for part in range(vpp) for layer in lists[part * pp + stage]]


class FieldOfStage:
    """The part of a field that a pipeline stage gets."""

    def __init__(self, field: Field, stage: int, job):
        self.field, self.name = field, field.name
        self.trailing = list(field.trailing)
        self._layers = None
        last = job.key("mesh.pp", 1) - 1
        if "layers" in field.settings:
            self._layers = layers_of_stage(field, stage, job)
            self.trailing[0] = len(self._layers)
            self.is_sent = True
        else:
            self.is_sent = {"last": stage == last, "first": stage == 0, "all": True}[field.settings.get("stage", "last")]
        self.may_be_narrow = field.settings.get("dtype") == "narrow"

    @property
    def empty(self) -> list:
        return [0] * math.prod(self.trailing)

    def of_stage(self, row: list) -> list:
        if self._layers is None:
            return row
        width = len(row) // self.field.trailing[0]
        return [x for layer in self._layers for x in row[layer * width:(layer + 1) * width]]

    def pad_rows(self, rank: int):
        """Yields the values of successive pad rows: experts in rotation, or zeros."""
        experts, number = self.field.settings.get("spread_pads", 0), rank
        while True:
            slots = self.trailing[-1] if experts else 0
            yield [(number * slots + i % slots) % experts for i in range(len(self.empty))] if experts else self.empty
            number += 1

    def require_type(self, tensor: Tensor, where) -> None:
        if self.may_be_narrow:
            require(tensor.dtype[0] in "IU", where, self.name, "is narrow as", tensor.dtype)
        else:
            require(tensor.dtype == self.field.dtype, where, self.name, "is", tensor.dtype, "not", self.field.dtype)


def require_rows(tensor: Tensor, expected: list[list], shape: list[int], where, name: str) -> None:
    """Compares rows element by element. None matches any row."""
    require(tensor.shape == shape, where, name, "has the shape", tensor.shape, "not", shape)
    width = math.prod(shape) // len(expected) if expected else 0
    for i, row in enumerate(expected):
        if row is not None:
            mine = tensor.values[i * width:(i + 1) * width]
            require(mine == row, where, name, "has", mine, "in row", i, "not", row)


def require_counted(part: dict, field: FieldOfStage, rows: list[list[list]], where) -> None:
    """Compares a field whose samples have their own numbers of rows."""
    offsets = [0]
    for of_sample in rows:
        offsets.append(offsets[-1] + len(of_sample))
    found = part[field.name + "_offsets"]
    require(found.values == offsets, where, field.name, "has the offsets", found.values, "not", offsets)
    flat = [row for of_sample in rows for row in of_sample]
    require_rows(part[field.name], flat, [len(flat), *field.trailing], where, field.name)


def rows_with_tokens(entry: Entry, field: Field, tokens: set[int]) -> list[list]:
    """Returns the rows that go with at least one of these tokens."""
    return [row for row, span in zip(entry.rows(field), entry.spans) if not tokens.isdisjoint(range(*span))]


class Sequences:
    """Compares a micro-batch of whole sequences with its entries."""

    def __init__(self, job, passing: Pass, micro_batch: MicroBatch, entries: list[Entry | None]):
        self._job, self._pass, self._m, self._entries = job, passing, micro_batch, entries
        starts = micro_batch.structure("cu_seqlens_padded")
        self._aligned = [end - begin for begin, end in zip(starts, starts[1:])]
        self._zigzag = passing.settings.zigzag

    def check(self, weights: list[float], of_depths: list[list[float]]) -> None:
        """Checks all rows. `weights` has the weight of a loss token of each entry, or None if it is unknown. `of_depths` has
        the same for each depth of multi-token prediction."""
        for stage, parts in enumerate(self._m.parts):
            for rank, part in enumerate(parts):
                where = f"{self._m.place}, stage {stage}, cp {rank}:"
                self._check_derived(part, stage, rank, where)
                self._check_weights(part, stage, rank, weights, where)
                for ahead, own in zip(self._pass.depths, of_depths):
                    self._check_ahead(part, ahead, stage, rank, own, where)
                self._check_padding_mask(part, rank, where)
                for field in self._pass.fields.values():
                    if field.name not in DERIVED:
                        self._check_field(part, FieldOfStage(field, stage, self._job), rank, where)
                for field in self._job.fields:
                    require(field.name in self._pass.fields or field.name in DERIVED or field.name not in part, where,
                            field.name, "is of other passes")

    def _local(self, rank: int, values, padding) -> list:
        """Returns a rank's rows. `values(entry)` are the rows of an entry, and `padding(i, entry)` is row `i` of its sequence
        after them."""
        local = []
        for entry, aligned in zip(self._entries, self._aligned):
            own = values(entry) if entry is not None else None
            for row in rows_of_rank(aligned, rank, self._m.size, self._zigzag):
                local.append(own[row] if own is not None and row < len(own) else padding(row, entry))
        return local

    def _shape(self, rows: int, trailing: list[int]) -> list[int]:
        if self._m.metadata["layout"] != "padded":
            return [rows, *trailing]
        return [len(self._entries), rows // len(self._entries), *trailing]

    def _compare(self, part: dict, name: str, local: list, where) -> None:
        rows = [row if row is None or isinstance(row, list) else [row] for row in local]
        trailing = list(self._pass.fields[name].trailing) if name in self._pass.fields else []
        require_rows(part[name], rows, self._shape(len(rows), trailing), where, name)

    def _check_derived(self, part: dict, stage: int, rank: int, where) -> None:
        first, last = stage == 0, stage == len(self._m.parts) - 1
        brought = {name for name in ("labels", "loss_mask", "position_ids") if name in self._pass.fields}
        for name, needed in [("input_ids", first or last), ("position_ids", last or "position_ids" not in brought),
                             ("labels", last or first and "labels" not in brought),
                             ("loss_mask", last or first and not {"labels", "loss_mask"} & brought)]:
            require(name in part or not needed, where, "has no", name)
        p = self._pass
        no_position = [0] * math.prod(p.fields["position_ids"].trailing) if "position_ids" in brought else None
        expected = {
            "input_ids": (lambda e: e.tokens, lambda row, e: p.pad_token),
            "labels": (p.labels, lambda row, e: p.label_pad),
            "loss_mask": (p.mask, lambda row, e: 0),
            "position_ids": (p.positions, lambda row, e: None if e is None else no_position or [row])}
        for name, (values, padding) in expected.items():
            if name in part:
                self._compare(part, name, self._local(rank, values, padding), where)

    def _check_weights(self, part: dict, stage: int, rank: int, weights: list, where) -> None:
        if stage == len(self._m.parts) - 1:
            require("loss_weights" in part, where, "has no loss_weights")
        if "loss_weights" not in part:
            return
        weight_of = {id(entry): weight for entry, weight in zip(self._entries, weights)}

        def of_entry(entry):
            return [(weight_of[id(entry)] if value else 0.0) for value in self._pass.mask(entry)]
        local = self._local(rank, of_entry, lambda row, e: 0.0)
        found = part["loss_weights"]
        require(found.shape == self._shape(len(local), []), where, "loss_weights", found.shape)
        require_weights(found.values, local, where)

    def _check_ahead(self, part: dict, ahead, stage: int, rank: int, weights: list, where) -> None:
        named = {name: f"{name}@{ahead.ahead}" for name in ("input_ids", "labels", "loss_mask", "loss_weights")}
        for name in named.values():
            require(name in part or stage < len(self._m.parts) - 1, where, "has no", name)
        weight_of = {id(entry): weight for entry, weight in zip(self._entries, weights)}
        for name, values, pad in [("input_ids", ahead.inputs, ahead.pad_token), ("labels", ahead.labels, ahead.label_pad),
                                  ("loss_mask", ahead.mask, 0.0)]:
            if named[name] in part:
                local = self._local(rank, values, lambda row, e, pad=pad: pad)
                require_rows(part[named[name]], [[x] for x in local], self._shape(len(local), []), where, named[name])
        if named["loss_weights"] in part:
            local = self._local(rank, lambda e: [weight_of[id(e)] if x else 0.0 for x in ahead.mask(e)], lambda row, e: 0.0)
            require_weights(part[named["loss_weights"]].values, local, where)

    def _check_padding_mask(self, part: dict, rank: int, where) -> None:
        asked = bool(self._pass.settings.key("pack.padding_mask"))
        require(asked == ("padding_mask" in part), where, "padding_mask is", "missing" if asked else "there")
        if asked:
            local = self._local(rank, lambda e: [False] * e.length, lambda row, e: True)
            require_rows(part["padding_mask"], [[x] for x in local], self._shape(len(local), []), where, "padding_mask")

    def _check_field(self, part: dict, field: FieldOfStage, rank: int, where) -> None:
        name = field.name
        require((name in part) == field.is_sent, where, name, "is" if name in part else "is not", "there")
        if not field.is_sent:
            return
        field.require_type(part[name], where)
        kind = field.field.kind
        if kind == "sample":
            rows = [field.empty if entry is None else field.of_stage(entry.rows(field.field)[0]) for entry in self._entries]
            require_rows(part[name], rows, [len(rows), *field.trailing], where, name)
        elif field.field.is_counted:
            require_counted(part, field, self._counted(field.field, rank), where)
        else:
            empty, pad_rows = [0] * math.prod(field.field.trailing), field.pad_rows(rank)
            local = self._local(rank, lambda e: e.rows_by_token(field.field, empty), lambda row, e: None)
            rows = [next(pad_rows) if row is None else field.of_stage(row) for row in local]
            require_rows(part[name], rows, self._shape(len(rows), field.trailing), where, name)

    def _counted(self, field: Field, rank: int) -> list[list[list]]:
        is_cut = field.name in ("pictures", "spans") and self._pass.cuts_pictures
        rows = []
        for entry, aligned in zip(self._entries, self._aligned):
            if entry is None:
                rows.append([])
            elif is_cut:
                tokens = {t for t in rows_of_rank(aligned, rank, self._m.size, self._zigzag) if t < entry.length}
                rows.append(rows_with_tokens(entry, field, tokens))
            else:
                rows.append(entry.rows(field))
        return rows


def require_weights(found: list[float], expected: list, where) -> None:
    """Compares weights with the accuracy of float32. If a weight is None, only its sign is checked."""
    for i, (mine, weight) in enumerate(zip(found, expected)):
        if weight is None:
            require(mine >= 0, where, "loss_weights has", mine, "in row", i)
        else:
            near = abs(mine - weight) <= 2e-7 * abs(weight)
            require(near, where, "loss_weights has", mine, "in row", i, "not", weight)
