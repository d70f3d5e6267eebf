"""Checks micro-batches of samples with shared prefixes: segments, each stored once, and predictions."""

import math

from dumps import MicroBatch, require
from expected import Entry, Pass, PassAhead
from jobs import Field
from sequences import FieldOfStage, require_counted, require_rows, require_weights, rows_of_rank, rows_with_tokens


def common_prefix_length(first: list, second: list) -> int:
    """Returns the length of the longest common prefix."""
    return next((i for i, (one, other) in enumerate(zip(first, second)) if one != other), min(len(first), len(second)))


class Segments:
    """Compares a micro-batch with shared prefixes with its entries."""

    def __init__(self, job, passing: Pass, micro_batch: MicroBatch, entries: list[Entry | None]):
        self._job, self._pass, self._m, self._entries = job, passing, micro_batch, entries
        true, padded = micro_batch.structure("cu_seqlens"), micro_batch.structure("cu_seqlens_padded")
        self._lengths = [end - begin for begin, end in zip(true, true[1:])]
        self._aligned = [end - begin for begin, end in zip(padded, padded[1:])]
        self._parents = micro_batch.structure("segment_parent")
        self._named = next((field for field in job.fields if field.name == "segment_ids"), None)
        self._tokens = [self._values(s, "input_ids", 0) for s in range(len(self._lengths))]
        self._paths = [self._path(s) for s in range(len(self._lengths))]
        self._starts = [sum(self._lengths[s] for s in path[:-1]) for path in self._paths]
        self._taken: set[int] = set()  # last segments of the samples found so far
        self._path_of = [None if entry is None else self._find(entry) for entry in entries]
        used = {s for path in self._path_of if path for s in path}
        self._is_filler = not used  # Filler is delivered only if the micro-batch would have no rows otherwise.
        for s, length in enumerate(self._lengths):
            require(s in used or self._is_filler or length == 0, micro_batch.place, "segment", s, "is nobody's")

    def _values(self, segment: int, name: str, stage: int) -> list[int]:
        """Returns the values of a segment's tokens in a tensor that has one number per row."""
        rows = {}
        for rank, part in enumerate(self._m.parts[stage]):
            for i, row in zip(*self._rows(segment, rank)):
                rows[row] = part[name].values[i]
        return [rows[row] for row in range(self._lengths[segment])]

    def _rows(self, segment: int, rank: int) -> tuple[list[int], list[int]]:
        """Returns the local rows of a rank, and their indices in the segment."""
        begin = sum(self._aligned[:segment]) // self._m.size
        rows = rows_of_rank(self._aligned[segment], rank, self._m.size, self._pass.settings.zigzag)
        return list(range(begin, begin + len(rows))), rows

    def _path(self, segment: int) -> list[int]:
        path = [segment]
        while self._parents[path[0]] >= 0:
            require(self._parents[path[0]] < path[0], self._m.place, "a parent stands behind its segment", path[0])
            path.insert(0, self._parents[path[0]])
        return path

    def _find(self, entry: Entry) -> list[int]:
        """Returns the segments that together contain the entry's tokens."""
        if not entry.tokens:
            return []
        found = [path for path in self._paths if [t for s in path for t in self._tokens[s]] == entry.tokens]
        found = [path for path in found if self._has_ids_of(entry, path)]
        require(bool(found), self._m.place, "sample", entry.number, "does not match any path of segments")
        ends = self._m.structure("segment_sample")
        own = [path for path in found if ends[path[-1]] == entry.number]
        # A shared prompt does not say which samples end with it. Equal samples have one segment each, or one in common.
        own = own or [path for path in found if ends[path[-1]] >= 0] or found
        path = next((path for path in own if path[-1] not in self._taken), own[0])
        self._taken.add(path[-1])
        return path

    def _has_ids_of(self, entry: Entry, path: list[int]) -> bool:
        """Returns whether the tokens of a path have the entry's segment ids. True if these are not delivered per token."""
        if self._named is None or self._named.kind != "token":
            return True
        stage = next((i for i, parts in enumerate(self._m.parts) if "segment_ids" in parts[0]), None)
        return stage is None or [[i] for s in path for i in self._values(s, "segment_ids", stage)] == entry.rows(self._named)

    def check(self, weights: list[float], of_depths: list[list[float]]) -> None:
        self._check_sharing()
        for ahead, own in zip(self._pass.depths, of_depths):
            self._check_ahead(ahead, own)
        for stage, parts in enumerate(self._m.parts):
            predicted: list[list[int]] = [[] for _ in self._entries]
            is_last = stage == len(self._m.parts) - 1
            for rank, part in enumerate(parts):
                where = f"{self._m.place}, stage {stage}, cp {rank}:"
                self._check_rows(part, rank, where)
                for field in self._pass.fields.values():
                    if field.name not in ("labels", "loss_mask", "position_ids"):
                        self._check_field(part, FieldOfStage(field, stage, self._job), rank, where)
                require({"labels", "loss_mask", "loss_weights"} <= part.keys() or not is_last, where, "lacks losses")
                if "prediction_rows" in part and "labels" in part:
                    self._check_predictions(part, stage, rank, weights, predicted, where)
            if is_last:
                for entry, rows in zip(self._entries, predicted):
                    if entry is not None:
                        expected = list(range(max(entry.prompt, 1) - 1, entry.length - 1))
                        require(sorted(rows) == expected, self._m.place, "sample", entry.number, "is predicted in", rows)

    def _check_sharing(self) -> None:
        """Checks that entries of a group share the rows of their common prefix. Parts of a tree in one micro-batch may share no
        rows only if alignment makes that cheaper."""
        if self._job.key("prefix.share") != "tree" or self._pass.depths:
            return
        flexible = self._job.key("mesh.cp") == "flexible"
        joined = not flexible and self._pass.settings.alignment(self._m.size) == 1
        of_group: dict = {}
        for entry, path in zip(self._entries, self._path_of):
            if entry is not None and path is not None:
                names = entry.tokens if self._named is None else self._names(entry, self._named)
                rows = [(s, row) for s in path for row in range(self._lengths[s])]
                of_group.setdefault(entry.group, []).append((entry, names, rows))
        for members in of_group.values():
            for at, (entry, names, rows) in enumerate(members):
                for other, their_names, their_rows in members[:at]:
                    alike, shared = common_prefix_length(names, their_names), common_prefix_length(rows, their_rows)
                    require(shared == alike or shared == 0 and not joined, self._m.place, "samples", entry.number, "and", other.number, "share", shared,
                            "rows, and begin with", alike, "alike")

    @staticmethod
    def _names(entry: Entry, named: Field) -> list:
        rows = [tuple(row) for row in entry.rows(named)]
        return entry.tokens[:entry.length - len(rows)] + rows

    def _check_ahead(self, ahead: PassAhead, weights: list[float]) -> None:
        """Checks the inputs and predictions of module k in rows that several entries may share."""
        k = ahead.ahead
        for stage, parts in enumerate(self._m.parts):
            predicted: list[list[int]] = [[] for _ in self._entries]
            is_last = stage == len(self._m.parts) - 1
            for rank, part in enumerate(parts):
                where = f"{self._m.place}, stage {stage}, cp {rank}:"
                require(not is_last or {f"input_ids@{k}", f"labels@{k}", f"loss_weights@{k}"} <= part.keys(), where, "lacks depth", k)
                if f"input_ids@{k}" in part:
                    self._check_inputs_ahead(part[f"input_ids@{k}"].values, ahead, rank, where)
                if f"labels@{k}" in part:
                    self._check_predictions_ahead(part, ahead, rank, weights, predicted, where)
            if is_last:
                for entry, rows in zip(self._entries, predicted):
                    expected = [] if entry is None else [t for t, mask in enumerate(ahead.mask(entry)) if mask]
                    require(sorted(rows) == expected, self._m.place, "depth", k, "is predicted in", rows, "not", expected)

    def _check_inputs_ahead(self, found: list[int], ahead: PassAhead, rank: int, where) -> None:
        expected = [ahead.pad_token] * len(found)
        for entry, path in zip(self._entries, self._path_of):
            own = ahead.inputs(entry) if entry is not None else []
            for s in path or []:
                for i, row in zip(*self._rows(s, rank)):
                    if row < self._lengths[s]:
                        expected[i] = own[self._starts[s] + row]
        require(found == expected, where, "tokens", ahead.ahead, "ahead are", found, "not", expected)

    def _check_predictions_ahead(self, part: dict, ahead: PassAhead, rank: int, weights: list, predicted: list, where) -> None:
        name = f"@{ahead.ahead}"
        rows, offsets = part["prediction_rows" + name].values, part["prediction_rows" + name + "_offsets"].values
        place = {i: (s, row) for s in range(len(self._lengths)) for i, row in zip(*self._rows(s, rank))}
        for k, entry in enumerate(self._entries):
            for p in range(offsets[k], offsets[k + 1]):
                s, row = place[rows[p]]
                require(entry is not None and s in self._path_of[k], where, "prediction", p, name, "is in another's segment")
                at = self._starts[s] + row
                predicted[k].append(at)
                require(part["labels" + name].values[p] == ahead.labels(entry)[at], where, "label", name, "of prediction", p)
                require(part["loss_mask" + name].values[p] == 1, where, "mask", name, "of prediction", p)
                require_weights([part["loss_weights" + name].values[p]], [weights[k]], where)

    def _check_rows(self, part: dict, rank: int, where) -> None:
        positions = {}
        for entry, path in zip(self._entries, self._path_of):
            if entry is not None:
                own = self._pass.positions(entry)
                for s in path:
                    for row in range(self._lengths[s]):
                        positions[(s, row)] = own[self._starts[s] + row]
        if self._pass.settings.key("pack.padding_mask"):
            own = [row >= self._lengths[s] or self._is_filler for s in range(len(self._lengths)) for row in self._rows(s, rank)[1]]
            require_rows(part["padding_mask"], [[pad] for pad in own], [len(own)], where, "padding_mask")
        found = part["position_ids"].rows() if "position_ids" in part else None
        for s in range(len(self._lengths)):
            for i, row in zip(*self._rows(s, rank)):
                is_token = row < self._lengths[s] and not self._is_filler
                if "input_ids" in part and not is_token:
                    require(part["input_ids"].values[i] == self._pass.pad_token, where, "row", i, "is no padding")
                if found is not None and is_token:
                    require(found[i] == positions[(s, row)], where, "position", found[i], "in row", i)

    def _check_field(self, part: dict, field: FieldOfStage, rank: int, where) -> None:
        name, kind = field.name, field.field.kind
        require((name in part) == field.is_sent, where, name, "is" if name in part else "is not", "there")
        if not field.is_sent or kind == "response_token":
            return
        field.require_type(part[name], where)
        if kind == "sample":
            rows = [field.empty if e is None else field.of_stage(e.rows(field.field)[0]) for e in self._entries]
            require_rows(part[name], rows, [len(rows), *field.trailing], where, name)
        elif field.field.is_counted:
            require_counted(part, field, self._counted(field, rank), where)
        else:
            self._check_token_field(part, field, rank, where)

    def _check_token_field(self, part: dict, field: FieldOfStage, rank: int, where) -> None:
        found = part[field.name].rows()
        pad_rows = field.pad_rows(rank)
        places = [(s, row) for s in range(len(self._lengths)) for row in self._rows(s, rank)[1]]
        pads = [self._is_filler or row >= self._lengths[s] for s, row in places]
        expected = [next(pad_rows) if pad else field.empty for pad in pads]
        for entry, path in zip(self._entries, self._path_of):
            own = entry.rows(field.field) if entry is not None else []
            for s in path or []:
                for i, row in zip(*self._rows(s, rank)):
                    if row < self._lengths[s]:
                        expected[i] = field.of_stage(own[self._starts[s] + row])
        require_rows(part[field.name], expected, [len(found), *field.trailing], where, field.name)

    def _counted(self, field: FieldOfStage, rank: int) -> list[list[list]]:
        is_cut = field.name in ("pictures", "spans") and self._pass.cuts_pictures
        rows = []
        for entry, path in zip(self._entries, self._path_of):
            if entry is None:
                rows.append([])
            elif is_cut:
                tokens = {self._starts[s] + row for s in path for row in self._rows(s, rank)[1] if row < self._lengths[s]}
                rows.append(rows_with_tokens(entry, field.field, tokens))
            else:
                rows.append(entry.rows(field.field))
        return rows

    def _check_predictions(self, part: dict, stage: int, rank: int, weights: list, predicted: list, where) -> None:
        offsets, rows = part["prediction_offsets"].values, part["prediction_rows"].values
        require(len(offsets) == len(self._entries) + 1 and offsets[-1] == len(rows), where, "prediction_offsets", offsets)
        place = {i: (s, row) for s in range(len(self._lengths)) for i, row in zip(*self._rows(s, rank))}
        fields = [FieldOfStage(field, stage, self._job) for field in self._pass.fields.values()
                  if field.kind == "response_token" and field.name not in ("labels", "loss_mask")]
        for k, entry in enumerate(self._entries):
            for p in range(offsets[k], offsets[k + 1]):
                s, row = place[rows[p]]
                require(entry is not None and s in self._path_of[k], where, "prediction", p, "is in another's segment")
                at = self._starts[s] + row
                predicted[k].append(at)
                require(part["labels"].values[p] == self._pass.labels(entry)[at], where, "label of prediction", p)
                mask = self._pass.mask(entry)[at]
                if "loss_mask" in part:
                    require(bool(part["loss_mask"].values[p]) == bool(mask), where, "mask of prediction", p)
                if "loss_weights" in part:
                    require_weights([part["loss_weights"].values[p]], [weights[k] if mask else 0.0], where)
                for field in fields:
                    if field.is_sent:
                        width = math.prod(field.trailing)
                        mine = part[field.name].values[p * width:(p + 1) * width]
                        own = field.of_stage(entry.rows_by_token(field.field, field.empty)[at])
                        require(mine == own, where, field.name, "of prediction", p, "is", mine, "not", own)
