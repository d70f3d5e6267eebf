"""Reads from the dumps of a job what happened to the samples that were sent to it, and checks the promises of docs/streams.md
and docs/micro-batches.md."""

import array
import dataclasses
import json
import pathlib
import struct


@dataclasses.dataclass(frozen=True)
class Rules:
    """Settings of the buffer and of the job."""

    group_size: int
    min_group: int
    groups: int  # number of groups per step
    max_staleness: int | None
    masks_stale: bool


@dataclasses.dataclass
class Run:
    """One start of the job: its ranks, and their output."""

    mesh: tuple[int, int]  # dp and cp
    dump: pathlib.Path
    was_killed: bool = False


@dataclasses.dataclass
class Account:
    steps: int = 0
    trained: int = 0
    keys: set[int] = dataclasses.field(default_factory=set)  # keys of trained samples
    tokens: int = 0
    masked: int = 0
    again: int = 0  # number of steps that a later run made again
    files_again: int = 0  # number of these steps' files from the same mesh, which are compared byte by byte
    errors: list[str] = dataclasses.field(default_factory=list)


ELEMENTS = {'I64': 'q', 'I32': 'i', 'F32': 'f'}


def tensors_in(path):
    content = path.read_bytes()
    size, = struct.unpack('<Q', content[:8])
    tensors = {}
    for name, tensor in json.loads(content[8:8 + size]).items():
        if name != '__metadata__' and tensor['dtype'] in ELEMENTS:
            begin, end = tensor['data_offsets']
            tensors[name] = array.array(ELEMENTS[tensor['dtype']], content[8 + size + begin:8 + size + end])
    return tensors


def files_of(step):
    return sorted(step.rglob('*.safetensors'))


class Accountant:
    def __init__(self, samples, rules):
        self._samples, self._rules = samples, rules
        self._account = Account()

    def account(self, runs):
        """Accounts for runs, in the order in which they were started."""
        steps, made_by = {}, {}
        for run in runs:
            made = sorted(run.dump.glob('step-*'))
            for place in made:
                number = int(place.name.split('-')[1])
                samples = self._samples_of(place, number, run)
                is_whole = not run.was_killed or place != made[-1]
                if number in steps:
                    earlier, earlier_is_whole = steps[number]
                    self._compare_again(number, earlier, earlier_is_whole, samples, is_whole)
                    self._compare_files(place, run, made_by[number])
                if number not in steps or len(samples) >= len(steps[number][0]):
                    steps[number] = (samples, is_whole)
                made_by.setdefault(number, []).append((run, place))
        self._check_steps({number: samples for number, (samples, _) in steps.items()})
        return self._account

    def _wrong(self, what):
        self._account.errors.append(what)

    def _samples_of(self, place, step, run):
        """Maps sample indices to keys. Context-parallel ranks have parts of the same samples."""
        found = {}
        for path in files_of(place):
            if 'cp-000' not in path.parts:
                continue
            tensors = tensors_in(path)
            for at, key in enumerate(tensors['key']):
                if tensors['sample_index'][at] < 0:
                    continue  # The rank got filler, since there was no sample for it.
                if tensors['sample_index'][at] in found:
                    self._wrong(f'{path} has a sample twice')
                found[tensors['sample_index'][at]] = key
                if not 0 <= key < len(self._samples):
                    self._wrong(f'{path} has sample {key}, which was never sent')
                    continue
                begin = tensors['cu_seqlens_padded'][at] if run.mesh[1] == 1 else None
                self._check_sample(path, step, key, tensors['version'][at], tensors, begin)
        return found

    def _check_sample(self, path, step, key, version, tensors, begin):
        rules, sample = self._rules, self._samples[key]
        is_stale = rules.max_staleness is not None and step - version > rules.max_staleness
        if is_stale and not rules.masks_stale:
            self._wrong(f'{path}: sample {key} of version {version} is stale')
        if begin is None:
            return
        tokens = sample['prompt_ids'] + sample['response_ids']
        if list(tensors['input_ids'][begin:begin + len(tokens)]) != tokens:
            self._wrong(f'{path}: sample {key} has other tokens')
        self._account.tokens += len(tokens)
        if rules.masks_stale:
            is_masked = not any(tensors['loss_mask'][begin:begin + len(tokens)])
            self._account.masked += is_masked
            if is_masked != is_stale:
                self._wrong(f'{path}: sample {key} of version {version} is {"" if is_masked else "not "}masked')

    def _compare_again(self, number, earlier, earlier_is_whole, later, later_is_whole):
        """Compares two deliveries of a step. A run that was killed may have written only a part of its last step."""
        self._account.again += 1
        differ = any(later[place] != key for place, key in earlier.items() if place in later)
        if differ or (earlier_is_whole and later.keys() - earlier) or (later_is_whole and earlier.keys() - later):
            self._wrong(f'step {number} was made again of other samples')

    def _compare_files(self, place, run, earlier):
        for other, other_place in earlier:
            if other.mesh != run.mesh:
                continue
            for path in files_of(place):
                before = other_place / path.relative_to(place)
                if not before.exists():
                    continue
                self._account.files_again += 1
                if before.read_bytes() != path.read_bytes():
                    self._wrong(f'{path} is not as it was')

    def _check_steps(self, steps):
        rules, account = self._rules, self._account
        account.steps = len(steps)
        if sorted(steps) != list(range(len(steps))):
            self._wrong(f'steps are missing: there are {sorted(steps)}')
        step_of = {}
        for number, samples in sorted(steps.items()):
            groups = {}
            for key in samples.values():
                if key in step_of:
                    self._wrong(f'sample {key} is in steps {step_of[key]} and {number}')
                step_of[key] = number
                groups.setdefault(key // rules.group_size, []).append(key)
            if len(groups) != rules.groups and number != len(steps) - 1:
                self._wrong(f'step {number} has {len(groups)} groups')
            if small := [group for group, keys in groups.items() if len(keys) < rules.min_group]:
                self._wrong(f'step {number} has groups that are not whole: {small[:5]}')
        account.trained, account.keys = len(step_of), set(step_of)
        torn = [group for group in {key // rules.group_size for key in step_of}
                if len({step_of[key] for key in range(group * rules.group_size, (group + 1) * rules.group_size)
                        if key in step_of}) > 1]
        if torn:
            self._wrong(f'groups are in several steps: {torn[:5]}')
