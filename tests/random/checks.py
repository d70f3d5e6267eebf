"""Compares what the ranks of a job got with what the job must deliver and collect."""

import collections
import pathlib

from dumps import DumpedStep, MicroBatch, require, steps_of
from expected import Entry, Expected, Pass
from jobs import Job
from losses import Losses
from segments import Segments
from sequences import Sequences, rows_of_rank
from tensors import read_safetensors

MASK = 2**64 - 1


class DeliveredEntries:
    """Finds the entry that each sequence of a step's micro-batches contains, and counts that each entry is delivered once."""

    def __init__(self, job: Job, passing: Pass, expected: Expected):
        self._job, self._pass, self._expected = job, passing, expected
        self._epochs = [expected.counts_of_epoch() for _ in range(expected.epochs)]

    def match(self, step: DumpedStep) -> list[list[Entry | None]]:
        candidates = collections.defaultdict(list)
        for entry in self._expected.entries_of_step(step.number):
            candidates[entry.number].append(entry)
        left = self._epochs[step.number // len(self._expected.sizes)]
        size = 0
        found = []
        for m in step.micro_batches:
            found.append([])
            for at, number in enumerate(m.samples):
                entry = None
                if number >= 0:
                    size += 1
                    entry = self._take(m, at, candidates[number], left)
                found[-1].append(entry)
        expected = self._expected.sizes[step.number % len(self._expected.sizes)]
        require(size == expected, f"step {step.number} has", size, "samples, not", expected)
        return found

    def _take(self, m: MicroBatch, at: int, candidates: list[Entry], left: collections.Counter) -> Entry:
        for entry in candidates:
            if left[id(entry)] > 0 and self._contains(m, at, entry):
                left[id(entry)] -= 1
                return entry
        require(False, m.place, "sample", m.samples[at], "differs from the source, or is delivered too often")
        raise AssertionError

    def _contains(self, m: MicroBatch, at: int, entry: Entry) -> bool:
        if m.metadata["layout"] == "shared":
            return True  # Segments looks for the tokens of this entry.
        true = m.structure("cu_seqlens")
        if true[at + 1] - true[at] != entry.length:
            return False
        zigzag = self._pass.settings.zigzag
        tokens = sequence_values(m, at, zigzag, 0, "input_ids")
        if entry.is_made_up:
            # Pieces with equal numbers of tokens may differ in their prompts.
            if sequence_values(m, at, zigzag, -1, "loss_mask") != self._pass.mask(entry):
                return False
            entry.tokens[:] = tokens
        return tokens == entry.tokens

    def require_all(self) -> None:
        for epoch, left in enumerate(self._epochs):
            missing = sum(left.values())
            require(missing == self._expected.left_out, "epoch", epoch, "lacks", missing, "samples")


def sequence_values(m: MicroBatch, at: int, zigzag: bool, stage: int, name: str) -> list:
    true, padded = m.structure("cu_seqlens"), m.structure("cu_seqlens_padded")
    aligned = padded[at + 1] - padded[at]
    values = {}
    for rank, part in enumerate(m.parts[stage]):
        begin = padded[at] // m.size
        for i, row in enumerate(rows_of_rank(aligned, rank, m.size, zigzag)):
            values[row] = part[name].values[begin + i]
    return [values[row] for row in range(true[at + 1] - true[at])]


class PassChecks:
    """Checks one pass over all steps."""

    def __init__(self, job: Job, profile: str, folder: pathlib.Path):
        self.job, self.passing = job, Pass(job, profile)
        self.settings = self.passing.settings
        self.expected = Expected(job)
        self.steps = steps_of(folder, job)
        self.entries: list[list[list[Entry | None]]] = []
        self.keeps_cap = job.key("balance.preset") is None and self.settings.key("balance.preset") is None

    def check(self) -> None:
        require(len(self.steps) == self.expected.num_steps, "there are", len(self.steps), "steps, not",
                self.expected.num_steps)
        delivered = DeliveredEntries(self.job, self.passing, self.expected)
        for step in self.steps:
            entries = delivered.match(step)
            self.entries.append(entries)
            self._check_counts(step)
            ordered = self.expected.entries_of_step(step.number) if self.expected.is_in_order else None
            losses = Losses(self.job, self.passing, step, entries, ordered)
            depths = [Losses(self.job, ahead, step, entries, ordered) for ahead in self.passing.depths]
            for at, m in enumerate(step.micro_batches):
                self._check_structure(m)
                self._check_row_caps(m, entries[at])
                reader = Segments if m.metadata["layout"] == "shared" else Sequences
                reader(self.job, self.passing, m, entries[at]).check(losses.weights(at), [d.weights(at) for d in depths])
                losses.check_mean_weight(at)
            losses.check_sum()
        delivered.require_all()

    def _check_counts(self, step: DumpedStep) -> None:
        is_tree = self.settings.is_flexible and self.settings.key("balance.strategy") != "grid"
        if not is_tree and not self.settings.has_free_counts:
            require(len(set(step.counts)) == 1, f"step {step.number}: DP ranks have", step.counts, "micro-batches")
        if is_tree or not self.keeps_cap:
            return
        pp, vpp = self.job.key("mesh.pp", 1), self.job.key("mesh.vpp", 1)
        multiple = self.settings.key("micro_batch.multiple_of", pp if vpp > 1 else 1)
        least = self.job.key("batch.mini_batches", 1) * self.settings.key("micro_batch.min_count", 1)
        for count in step.counts:
            require(count % multiple == 0, f"step {step.number} has", count, "micro-batches, no multiple of", multiple)
            require(count >= least, f"step {step.number} has", count, "micro-batches, fewer than", least)

    def _check_structure(self, m: MicroBatch) -> None:
        true, padded = m.structure("cu_seqlens"), m.structure("cu_seqlens_padded")
        require(len(true) == len(padded) and true[0] == padded[0] == 0, m.place, "cu_seqlens", true, padded)
        alignment = 1 if self.settings.delivers_samples else self.settings.alignment(m.size)
        lengths = list(zip(true, true[1:], padded, padded[1:]))
        for b, e, pb, pe in lengths:
            require(0 <= e - b <= pe - pb and (pe - pb) % alignment == 0, m.place, "sequence of", e - b, "rows in", pe - pb)
        samples = [sample for sample in m.samples if sample >= 0]
        if m.metadata["layout"] == "padded":
            require(len({pe - pb for _, _, pb, pe in lengths}) == 1, m.place, "has sequences of several widths")
        if m.metadata["layout"] != "shared":
            require(len(m.samples) == len(true) - 1, m.place, "has", len(m.samples), "samples in", len(true) - 1)
            # A micro-batch has filler only if it would have no rows otherwise, and padding only after the samples if shapes are
            # limited.
            if self.settings.key("micro_batch.shapes") is None:
                real = sum(pe - pb for i, (b, e, pb, pe) in enumerate(lengths) if m.samples[i] >= 0)
                require(real in (0, padded[-1]), m.place, "has rows of nobody's")
            for i, (b, e, pb, pe) in enumerate(lengths):
                tight = m.metadata["layout"] == "padded" or m.samples[i] < 0 or pe - pb < e - b + alignment
                require(tight, m.place, "sequence of", e - b, "is aligned to", pe - pb)
        if not self.keeps_cap or not samples:
            return
        rows = self._planned_rows(m)
        require(rows <= self.settings.cap(m.size), m.place, "has", rows, "rows, above", self.settings.cap(m.size))
        most = self.settings.key("micro_batch.max_samples")
        if most is not None:
            require(len(samples) <= most, m.place, "has", len(samples), "samples, above", most)
        if self.settings.key("micro_batch.mode") == "fixed":
            size = self.settings.key("micro_batch.size", 1)
            require(len(samples) <= size, m.place, "has", len(samples), "samples of", size)

    def _planned_rows(self, m: MicroBatch) -> int:
        """Returns the number of rows that the cap limits. Pad rows count even if they are not delivered."""
        padded = m.structure("cu_seqlens_padded")
        if not self.settings.delivers_samples:
            return padded[-1]
        alignment = self.settings.alignment(m.size)
        lengths = [end - begin for begin, end, sample in zip(padded, padded[1:], m.samples) if sample >= 0]
        aligned = [-(-length // alignment) * alignment for length in lengths]
        return len(aligned) * max(aligned) if self.settings.key("micro_batch.mode") == "padded" else sum(aligned)

    def _check_row_caps(self, m: MicroBatch, entries: list[Entry | None]) -> None:
        for name, most in self.settings.key("micro_batch.max_rows", {}).items():
            field = next(field for field in self.job.fields if field.name == name)
            rows = sum(len(entry.rows(field)) for entry in entries if entry is not None)
            require(rows <= most, m.place, "has", rows, "rows of", name, "above", most)

    def shapes(self) -> set[tuple[int, int, int, int]]:
        return {m.shape for step in self.steps for m in step.micro_batches}


def mix(x: int) -> int:
    x = (x + 0x9e3779b97f4a7c15) & MASK
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9 & MASK
    x = (x ^ x >> 27) * 0x94d049bb133111eb & MASK
    return x ^ x >> 31


def token_hash(token: int, sample: int, position: int) -> int:
    return mix(mix(mix(token & MASK) + sample & MASK) + position & MASK) & MASK >> 1


def check_results(checks: PassChecks, folder: pathlib.Path) -> None:
    """Checks the values that the demonstration consumer computes for each token, sample by sample in the original order."""
    for step, entries in zip(checks.steps, checks.entries):
        path = folder / f"step-{step.number:06}.safetensors"
        found, _ = read_safetensors(path)
        delivered = [entry for of_micro_batch in entries for entry in of_micro_batch if entry is not None]
        if checks.expected.is_in_order:
            order = {id(entry): at for at, entry in reversed(list(enumerate(checks.expected.entries_of_step(step.number))))}
            delivered.sort(key=lambda entry: order[id(entry)])
        numbers = found["sample_index"].values
        require(sorted(numbers) == sorted(entry.number for entry in delivered), path, "is of the samples", numbers)
        if checks.expected.is_in_order:
            require(numbers == [entry.number for entry in delivered], path, "has the order", numbers)
        left = collections.defaultdict(list)
        for entry in delivered:
            left[entry.number].append(entry)
        offsets, responses = found["offsets"].values, 0
        for at, number in enumerate(numbers):
            tokens = found["token_hash"].values[offsets[at]:offsets[at + 1]] if "token_hash" in found else None
            entry = next((e for e in left[number] if tokens is None or tokens == hashes_of(e)), None)
            require(entry is not None, path, "has wrong hashes for sample", number)
            left[number].remove(entry)
            require(found["sample_hash"].values[at] == token_hash(entry.length, number, 0), path, "hash of", number)
            expected = response_hashes(checks.passing, entry)
            mine = found["response_hash"].values[responses:responses + len(expected)]
            require(mine == expected, path, "response_hash of", number, "is", mine, "not", expected)
            responses += len(expected)


def hashes_of(entry: Entry) -> list[int]:
    return [token_hash(token, entry.number, t) for t, token in enumerate(entry.tokens)]


def response_hashes(passing: Pass, entry: Entry) -> list[int]:
    """Returns hashes of the labels at the rows that predict each response token. A token at the start of its sequence is not
    predicted."""
    labels = passing.labels(entry)
    return [token_hash(labels[t - 1], entry.number, t) if t else 0 for t in range(entry.prompt, entry.length)]


def check_job(job: Job, folder: pathlib.Path, dump: str) -> list[PassChecks]:
    """Checks all passes of a finished job whose dump is `folder / dump`. Throws Wrong if a check fails."""
    passes = []
    for profile in job.profiles or [""]:
        below = profile if len(job.profiles) > 1 else ""
        checks = PassChecks(job, profile, folder / dump / below)
        checks.check()
        if job.results:
            check_results(checks, folder / "results" / below)
        passes.append(checks)
    shapes = job.key("micro_batch.shapes")
    if shapes is not None:
        found = set().union(*(checks.shapes() for checks in passes))
        require(len(found) <= shapes, "there are the shapes", sorted(found), "of", shapes)
    return passes
