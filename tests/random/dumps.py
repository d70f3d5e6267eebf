"""Reads a dump: the micro-batches of each step, with everything that each of their ranks got."""

import dataclasses
import json
import pathlib
import re

from tensors import Tensor, read_safetensors

# Tensors that describe the structure of a micro-batch, and are equal on all of its ranks.
STRUCTURE = ["cu_seqlens", "cu_seqlens_padded", "sample_index", "segment_sample", "segment_group", "segment_parent"]


class Wrong(Exception):
    """Raised if a job does not do what the documentation promises."""


def require(condition: bool, *words) -> None:
    if not condition:
        raise Wrong(" ".join(str(word) for word in words))


@dataclasses.dataclass
class MicroBatch:
    """A micro-batch of a DP rank, or of a context-parallel group of flexible size."""

    place: str
    first: int  # DP rank, or the first place of the group
    number: int  # index among the micro-batches of the DP rank or group
    parts: list[list[dict[str, Tensor]]]  # by pipeline stage and context-parallel rank
    metadata: dict[str, str]

    @property
    def size(self) -> int:
        return len(self.parts[0])

    def structure(self, name: str) -> list[int]:
        return self.parts[0][0][name].values

    @property
    def samples(self) -> list[int]:
        return self.structure("sample_index")

    @property
    def is_empty(self) -> bool:
        return all(sample < 0 for sample in self.samples)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Returns the shape for which a CUDA graph would be captured."""
        padded = self.structure("cu_seqlens_padded")
        return padded[-1] // self.size, len(padded) - 1, int(self.metadata["max_seqlen"]), self.size


@dataclasses.dataclass
class DumpedStep:
    number: int
    micro_batches: list[MicroBatch]
    counts: list[int]  # number of micro-batches by DP rank


def numbered(folder: pathlib.Path, name: str) -> list[pathlib.Path]:
    found = sorted(path for path in folder.iterdir() if re.fullmatch(name + r"-\d+(\.safetensors)?", path.name))
    numbers = [int(re.search(r"\d+", path.name).group()) for path in found]
    require(numbers == list(range(len(numbers))), folder, "has", name, "numbers", numbers, "instead of all from 0")
    return found


def _of_any_copy(path: pathlib.Path) -> tuple[dict, dict]:
    """Returns tensors and metadata, without the number of the tensor-parallel copy."""
    tensors, metadata = read_safetensors(path)
    schema = json.loads(metadata["evenkeel_dump"])
    schema["place"]["tp"] = None
    return tensors, {**metadata, "evenkeel_dump": schema}


def _files(place: pathlib.Path, tp: int) -> list[dict]:
    """Returns the micro-batches of a place, and requires that all of its tensor-parallel copies are equal."""
    copies = numbered(place, "tp")
    require(len(copies) == tp, place, "has", len(copies), "tensor-parallel ranks")
    stages = [numbered(stage, "mb") for stage in numbered(copies[0], "pp")]
    for copy in copies[1:]:
        for stage, files in enumerate(stages):
            mine = numbered(copy / f"pp-{stage:03}", "mb")
            require(len(mine) == len(files), copy, "has", len(mine), "micro-batches of", len(files))
            for one, other in zip(mine, files):
                require(_of_any_copy(one) == _of_any_copy(other), one, "is not", other)
    require(len({len(files) for files in stages}) == 1, place, "has pipeline stages with different numbers of micro-batches")
    return [{"path": files[0], "stages": [read_safetensors(file) for file in files]} for files in zip(*stages)]


def _whole(place: str, first: int, number: int, members: list[dict]) -> MicroBatch:
    """Combines the files of the context-parallel ranks (`members`) into one micro-batch."""
    parts = [[member["stages"][stage][0] for member in members] for stage in range(len(members[0]["stages"]))]
    micro_batch = MicroBatch(place, first, number, parts, members[0]["stages"][0][1])
    for stage in parts:
        for part in stage:
            for name in STRUCTURE:
                same = (name in part) == (name in parts[0][0]) and part.get(name) == parts[0][0].get(name)
                require(same, place, name, "differs between ranks of one micro-batch")
    return micro_batch


def _grid_step(folder: pathlib.Path, job, number: int) -> DumpedStep:
    micro_batches, counts = [], []
    for dp, rank in enumerate(numbered(folder, "dp")):
        places = [_files(place, job.key("mesh.tp", 1)) for place in numbered(rank, "cp")]
        require(len(places) == job.key("mesh.cp", 1), rank, "has", len(places), "context-parallel ranks")
        require(len({len(files) for files in places}) == 1, rank,
                "has context-parallel ranks with different numbers of micro-batches")
        counts.append(len(places[0]))
        for m, members in enumerate(zip(*places)):
            micro_batches.append(_whole(str(members[0]["path"]), dp, m, list(members)))
    return DumpedStep(number, micro_batches, counts)


def _flexible_step(folder: pathlib.Path, job, number: int) -> DumpedStep:
    groups: dict[tuple, dict[int, dict]] = {}
    counts = []
    for place, path in enumerate(numbered(folder, "data")):
        seen: dict[tuple, int] = {}
        files = _files(path, job.key("mesh.tp", 1))
        counts.append(len(files))
        for file in files:
            metadata = file["stages"][0][1]
            first, size, rank = (int(metadata["context_" + word]) for word in ("first", "size", "rank"))
            require(first + rank == place and 0 <= rank < size, file["path"], "says it is rank", rank, "of", size)
            of_group = seen.get((first, size), 0)
            seen[(first, size)] = of_group + 1
            groups.setdefault((first, size, of_group), {})[rank] = file
    micro_batches = []
    for (first, size, of_group), members in sorted(groups.items()):
        require(sorted(members) == list(range(size)), folder, "group of", size, "from", first, "lacks members")
        files = [members[rank] for rank in range(size)]
        micro_batches.append(_whole(str(files[0]["path"]), first, of_group, files))
    return DumpedStep(number, micro_batches, counts)


def steps_of(folder: pathlib.Path, job) -> list[DumpedStep]:
    read = _flexible_step if job.key("mesh.cp") == "flexible" else _grid_step
    return [read(path, job, number) for number, path in enumerate(numbered(folder, "step"))]
