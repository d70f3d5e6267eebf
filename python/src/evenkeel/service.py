"""The service: samples of all ranks in, balanced and packed micro-batches out, results home (docs/python.md)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from evenkeel import _arrays, _core
from evenkeel._ranks import ranks_of
from evenkeel.config import Config, ConfigLike

if TYPE_CHECKING:
    from evenkeel import _service
else:
    from evenkeel._ranks import extension as _service

__all__ = ["DataService", "MicroBatch", "Samples", "Step"]

KINDS = ("token", "response_token", "sample")


class Samples:
    """Samples of this rank: their lengths in tokens, and named fields.

    ``ids`` are whole numbers from 0 on, by which micro-batches and results name samples; ``groups`` say which samples have
    one prompt (None: each is a group of its own). A field is one tensor of all samples' rows back to back, or a list of
    one tensor a sample: ``token`` fields have a row a token, ``response_token`` fields a row a response token, ``sample``
    fields a row a sample. Rows are copied. Raises InputError for fields whose rows do not fit, and dtypes other than bool,
    uint8, int32, int64, float16, bfloat16, float32 and float64.
    """

    __slots__ = ("_core", "_tensors", "_views")

    def __init__(
        self,
        *,
        ids: Any,
        prompt_lengths: Any,
        response_lengths: Any,
        groups: Any = None,
        token: Mapping[str, Any] | None = None,
        response_token: Mapping[str, Any] | None = None,
        sample: Mapping[str, Any] | None = None,
    ) -> None:
        self._core = _service.Samples(ids, ids if groups is None else groups, prompt_lengths, response_lengths)
        self._tensors = False
        self._views: dict[str, Any] | None = None
        for kind, fields in zip(KINDS, (token, response_token, sample)):
            for name, rows in (fields or {}).items():
                _add(self._core, name, kind, rows)

    @classmethod
    def _of(cls, core: _service.Samples, tensors: bool) -> Samples:
        samples = cls.__new__(cls)
        samples._core, samples._tensors, samples._views = core, tensors, None
        return samples

    def __len__(self) -> int:
        return len(self._core)

    @property
    def ids(self) -> npt.NDArray[np.int64]:
        return self._core.ids

    @property
    def groups(self) -> npt.NDArray[np.int64]:
        return self._core.groups

    @property
    def prompt_lengths(self) -> npt.NDArray[np.int64]:
        return self._core.prompt_lengths

    @property
    def response_lengths(self) -> npt.NDArray[np.int64]:
        return self._core.response_lengths

    @property
    def fields(self) -> dict[str, Any]:
        """By name, the rows of all samples back to back: views of this object's memory, which they keep."""
        if self._views is None:
            fields = self._core.fields()
            self._views = {name: _handed_out(rows, dtype, self._tensors) for name, dtype, _, rows in fields}
        return self._views

    def __getitem__(self, name: str) -> Any:
        return _field_of(self.fields, name)

    def rows_of(self, name: str) -> list[Any]:
        """A field sample by sample, as views."""
        rows = self[name]
        kind = next(kind for field, _, kind, _ in self._core.fields() if field == name)
        counts = {
            "token": self.prompt_lengths + self.response_lengths,
            "response_token": self.response_lengths,
            "sample": np.ones(len(self), np.int64),
        }[kind]
        ends = np.cumsum(counts)
        return [rows[end - count : end] for end, count in zip(ends.tolist(), counts.tolist())]


class MicroBatch:
    """What one rank runs one forward and backward pass over. Tensors are views of its packed memory, which they keep; they
    are the trainer's own and may be changed, but for those that ranks of a node share, which are read-only."""

    __slots__ = ("_core", "_step", "_index", "_tensors", "_views")

    def __init__(self, core: _service.MicroBatch, step: _service.Step, index: int, tensors: bool) -> None:
        # Not the Step, which has this one: memory of such a circle waits for Python's collector.
        self._core, self._step, self._index, self._tensors = core, step, index, tensors
        self._views: dict[str, Any] | None = None

    @property
    def tensors(self) -> dict[str, Any]:
        """By name: token fields [local_rows, ...], sample fields [samples, ...] (docs/micro-batches.md)."""
        if self._views is None:
            fields = self._core.fields()
            self._views = {name: _handed_out(rows, dtype, self._tensors) for name, dtype, rows in fields}
        return self._views

    def __getitem__(self, name: str) -> Any:
        return _field_of(self.tensors, name)

    @property
    def samples(self) -> npt.NDArray[np.int64]:
        """Ids of its samples, in packed order; -1 is filler."""
        return self._core.samples

    @property
    def prompt_lengths(self) -> npt.NDArray[np.int64]:
        return self._core.prompt_lengths

    @property
    def response_lengths(self) -> npt.NDArray[np.int64]:
        return self._core.response_lengths

    @property
    def empty(self) -> bool:
        """Whether there is no sample in it: it weighs nothing, and is there so that all ranks have as many."""
        return self._core.empty

    @property
    def num_tokens(self) -> int:
        return self._core.num_tokens

    @property
    def mini_batch(self) -> int:
        """The optimizer update it belongs to, 0-based."""
        return self._core.mini_batch

    @property
    def scale(self) -> float:
        """Multiply the sum of ``loss_weights * loss`` by this, and the trainer's reductions give the un-split loss."""
        return self._core.scale

    @property
    def mean_weight(self) -> float:
        """For trainers that insist on local means: multiply the micro-batch's own mean by this instead."""
        return self._core.mean_weight

    @property
    def exact_loss_weights(self) -> Any:
        """``loss_weights`` without their rounding to float32, as float64: for trainers that compute in float64. None where
        there is no loss mask (stages of a pipeline). Made anew each time."""
        rounded = next((rows for name, _, rows in self._core.fields() if name == "loss_weights"), None)
        if rounded is None:
            return None
        by_sample = self._core.token_weights
        offsets = self._core.prediction_offsets
        padded = self._core.cu_seqlens_padded.astype(np.int64)  # over the CP group, whose ranks have as many rows each
        ends = padded * len(rounded) // padded[-1] if offsets is None else offsets
        weights = np.zeros(len(rounded))  # filler, behind the samples, weighs nothing
        known = np.repeat(by_sample, np.diff(ends)[: len(by_sample)])
        weights[: len(known)] = known
        weights[rounded == 0] = 0
        return _handed_out(weights, "float64", self._tensors)

    @property
    def tree(self) -> _core.PackedTreeLayout | None:
        """With shared prefixes, whose sequences are segments: how these hang together, and its sample i is ``samples[i]``.
        ``tree.ancestor_intervals(cp_rank=...)`` is the attention mask. None where nothing is shared."""
        return self._core.tree

    @property
    def prediction_offsets(self) -> Any:
        """With shared prefixes: sample i has the predictions from ``prediction_offsets[i]`` to ``[i + 1]`` on this rank,
        [samples + 1] int64. None where nothing is shared."""
        offsets = self._core.prediction_offsets
        return None if offsets is None else _handed_out(offsets, "int64", self._tensors)

    @property
    def cu_seqlens(self) -> Any:
        """[sequences + 1] int32, true tokens over the whole CP group."""
        return self._offsets(self._core.cu_seqlens)

    @property
    def cu_seqlens_padded(self) -> Any:
        """[sequences + 1] int32, aligned tokens over the whole CP group."""
        return self._offsets(self._core.cu_seqlens_padded)

    @property
    def max_seqlen(self) -> int:
        return self._core.max_seqlen

    def to(self, device: Any, *, non_blocking: bool = False) -> dict[str, Any]:
        """All tensors on a device. Copies of pinned memory (``evenkeel.memory``) with ``non_blocking`` go on while the
        program does: the step must live until they are done, as it does inside ``for step in service``."""
        import torch

        return {
            name: torch.as_tensor(rows).to(device, non_blocking=non_blocking) for name, rows in self.tensors.items()
        }

    def nested(self, name: str) -> Any:
        """A token field as a nested tensor, one true sequence a part, without pad. Copied. Raises InputError where context
        parallelism leaves this rank a part of each sequence only."""
        import torch

        rows = torch.as_tensor(self[name])
        starts, lengths = self._core.cu_seqlens_padded[:-1].tolist(), np.diff(self._core.cu_seqlens).tolist()
        if len(rows) != int(self._core.cu_seqlens_padded[-1]):
            _core.raise_error(
                "input",
                f"field {name!r}",
                f"has {len(rows)} rows here, and the sequences have {int(self._core.cu_seqlens_padded[-1])}",
                "Take a token field, and mesh.cp 1",
            )
        return torch.nested.nested_tensor([rows[start : start + length] for start, length in zip(starts, lengths)])

    def packed_seq_params(self) -> dict[str, Any]:
        """Megatron's PackedSeqParams, as keywords: ``PackedSeqParams(**mb.packed_seq_params())``."""
        return {
            "qkv_format": "thd",
            "cu_seqlens_q": self.cu_seqlens,
            "cu_seqlens_kv": self.cu_seqlens,
            "cu_seqlens_q_padded": self.cu_seqlens_padded,
            "cu_seqlens_kv_padded": self.cu_seqlens_padded,
            "max_seqlen_q": self.max_seqlen,
            "max_seqlen_kv": self.max_seqlen,
        }

    def flash_attn_varlen_kwargs(self) -> dict[str, Any]:
        """Keywords of flash_attn_varlen_func, for a whole sequence on each rank (cp 1): rows of pad are sequences' ends."""
        offsets = self.cu_seqlens_padded
        return {
            "cu_seqlens_q": offsets,
            "cu_seqlens_k": offsets,
            "max_seqlen_q": self.max_seqlen,
            "max_seqlen_k": self.max_seqlen,
        }

    def put(self, name: str, rows: Any, *, kind: str) -> None:
        """Adds a result: a row a local packed row (kinds token and response_token) or a sequence (kind sample). Copied.
        What is wrong with it is told when results are collected, on all ranks."""
        values = _arrays.Rows(rows, name)
        self._step.put(self._index, name, _dtype_word(values), kind, values.array)

    def _offsets(self, values: npt.NDArray[np.int32]) -> Any:
        return _handed_out(values, "int32", self._tensors)


class Step:
    """What a step hands one rank."""

    __slots__ = ("_core", "_tensors", "_micro_batches")

    def __init__(self, core: _service.Step, tensors: bool) -> None:
        self._core, self._tensors = core, tensors
        self._micro_batches = [
            MicroBatch(part, core, m, tensors) for m, part in enumerate(core.micro_batches())
        ]

    @property
    def micro_batches(self) -> list[MicroBatch]:
        """In the order to run them in. Empty once the step was passed over again."""
        return self._micro_batches if self._core.is_whole else []

    @property
    def index(self) -> int:
        return self._core.index

    @property
    def profile(self) -> str:
        return self._core.profile

    @property
    def num_samples(self) -> int:
        """Over all ranks."""
        return self._core.num_samples

    @property
    def num_tokens(self) -> int:
        """Over all ranks."""
        return self._core.num_tokens

    @property
    def seconds(self) -> dict[str, float]:
        """Of each phase, on this rank."""
        return self._core.seconds

    @property
    def waited(self) -> float:
        """Seconds that the trainer waited for it."""
        return self._core.waited


class DataService:
    """Balances, packs and exchanges the samples of each step over the ranks of ``group``: a communicator of mpi4py, or a
    process group of torch.distributed. Plans and bytes are the same over either.

    ``config`` is a Config, or what makes one. ``tensors`` says what is handed out: ``"torch"`` or ``"numpy"``; None: tensors
    over a process group, arrays over a communicator. All calls but properties are collective: every rank of the group makes
    them, in the same order. Errors are raised on every rank.

    Iterating hands out the steps of the sources that the configuration names, ``exchange.prefetch`` of them made ahead:

        service = evenkeel.DataService(torch.distributed.group.WORLD, "job.yaml")
        for step in service:
            for micro_batch in step.micro_batches:
                ...
    """

    def __init__(
        self, group: Any, config: ConfigLike, *, profile: str = "", tensors: str | None = None
    ) -> None:
        self._ranks = ranks_of(group)
        self._config = Config.of(config)
        self._profile = profile
        if tensors not in (None, "torch", "numpy"):
            _core.raise_error("input", "tensors", f"is {tensors!r}; it can be 'torch' or 'numpy'")
        self._tensors = tensors == "torch" if tensors else "mpi4py.MPI" not in sys.modules or not _is_mpi(group)
        self._core = _service.Service(self._ranks, self._config._core, None, False)
        self._stream: _service.Stream | None = None
        self._ahead: _service.Ahead | None = None
        self._resumed: _service.State | None = None
        self._accepts_changes = False
        self._steps_of = ""

    @property
    def config(self) -> Config:
        return self._config

    @property
    def rank(self) -> int:
        return self._ranks.rank

    @property
    def size(self) -> int:
        return self._ranks.size

    @property
    def mesh(self) -> dict[str, tuple[int, int]]:
        """By axis (tp, cp, dp, pp): this rank's place along it, and how many there are."""
        return self._core.place()

    def step(self, samples: Samples | Callable[[], Samples], profile: str = "") -> Step:
        """One step over the samples that the ranks bring, each its own; a callable brings them when they are wanted, and what
        it raises all ranks raise."""
        self._hand_out_steps_of("own samples")
        read = (lambda: _core_of(samples())) if callable(samples) else (lambda: _core_of(samples))
        return Step(self._core.first_pass(read, profile), self._tensors)

    def step_again(self, step: Step, profile: str, added: Samples | None = None) -> Step:
        """Another pass over the samples of ``step`` under another profile; ``added`` are further fields of this rank's
        samples, in the order in which it brought them, as collect() returns them. ``step`` is used up."""
        core = None if added is None else _core_of(added)
        return Step(self._core.later_pass(step._core, profile, core), self._tensors)

    def collect(self, step: Step) -> Samples:
        """What was put into the step's micro-batches, for this rank's samples in the order in which it brought them."""
        return Samples._of(self._core.collect(step._core), self._tensors)

    def collect_on(self, step: Step, root: int) -> Samples:
        """The same of all ranks' samples, ordered by id, on rank ``root``; no samples elsewhere."""
        return Samples._of(self._core.collect_on(step._core, root), self._tensors)

    def report_time(self, step: Step, micro_batch: int, seconds: float) -> None:
        """How long this rank took for one micro-batch, for ``balance.cost: measured``. Local."""
        if self._ahead is None:
            self._core.report_time(step._core, micro_batch, seconds)
        else:
            self._ahead.report_time(step._core, micro_batch, seconds)

    def __iter__(self) -> Iterator[Step]:
        """Steps of the configured sources, from where the service stands. One iteration at a time."""
        self._hand_out_steps_of("configured sources")
        stream = self._open_stream()
        state = self._resumed
        self._ahead = None
        self._ahead = ahead = _service.Ahead(
            self._ranks, self._config._core, stream.num_steps, stream.read, state, self._accepts_changes, self._profile
        )
        try:
            while (core := ahead.next()) is not None:
                self._resumed = None
                yield Step(core, self._tensors)
                del core  # its memory serves the next step
        finally:
            # No collective call in here: one rank alone may have left its loop.
            self._resumed = ahead.state()
            self._ahead = None

    def __len__(self) -> int:
        """Steps of the configured sources. Collective the first time."""
        return self._open_stream().num_steps

    def state_dict(self) -> dict[str, Any]:
        """Where the service stands, of at most 64 KiB, the same on all ranks; does not depend on the mesh."""
        return {"evenkeel": self._state().to_text()}

    def load_state_dict(self, state: Mapping[str, Any], *, accept_changes: bool = False) -> None:
        """Goes on from there: the next step is the one that would have come. Raises ConfigError that lists what changed in
        configuration and sources, unless ``accept_changes``."""
        if "evenkeel" not in state:
            _core.raise_error("input", "state", f"has no key 'evenkeel'; there are {', '.join(map(str, state)) or 'none'}")
        parsed = _service.parse_state(state["evenkeel"])
        if self._ahead is not None:
            _core.raise_error("input", "state", "cannot be loaded while steps are iterated", "End the iteration first")
        self._core = _service.Service(self._ranks, self._config._core, parsed, accept_changes)
        self._resumed, self._accepts_changes = parsed, accept_changes
        if parsed.has_sources and not accept_changes:
            now = self._core.state()
            self._open_stream().describe(now)
            parsed.require_same_job(now)

    def _hand_out_steps_of(self, whose: str) -> None:
        """Where a service stands is a number of steps of one kind."""
        if self._steps_of not in ("", whose):
            _core.raise_error("input", "service", f"has handed out steps of {self._steps_of}; these are of {whose}",
                              "Make a service for each")
        self._steps_of = whose

    def _state(self) -> _service.State:
        own = self._steps_of == "own samples"
        state = self._ahead.state() if self._ahead is not None else None if own else self._resumed
        state = state or self._core.state()
        if self._stream is not None:
            self._stream.describe(state)
        return state

    def _open_stream(self) -> _service.Stream:
        if self._stream is None:
            profiles = [self._profile] if self._profile else []
            self._stream = _service.Stream(self._ranks, self._config._core, profiles)
        return self._stream


def _is_mpi(group: Any) -> bool:
    return isinstance(group, sys.modules["mpi4py.MPI"].Comm)


def _core_of(samples: Any) -> _service.Samples:
    if isinstance(samples, Samples):
        return samples._core
    raise TypeError(f"samples are evenkeel.Samples, not a {type(samples).__name__}")


def _field_of(fields: Mapping[str, Any], name: str) -> Any:
    if name not in fields:
        _core.raise_error("input", f"field {name!r}", f"is not there; there are {', '.join(fields) or 'none'}")
    return fields[name]


def _add(core: _service.Samples, name: str, kind: str, rows: Any) -> None:
    if isinstance(rows, Sequence) and not isinstance(rows, (str, bytes)):
        rows = _joined(rows, name)
    values = _arrays.Rows(rows, name)
    core.add(name, _dtype_word(values), kind, values.array)


def _joined(rows: Sequence[Any], name: str) -> Any:
    """Rows of each sample back to back."""
    if not rows or not (_arrays.is_tensor(rows[0]) or isinstance(rows[0], np.ndarray)):
        _core.raise_error("input", f"field {name!r}", "is a list of no tensors", "Pass one tensor of all rows, or one a sample")
    if len({str(row.dtype) for row in rows}) > 1:
        _core.raise_error("input", f"field {name!r}", f"has the dtypes {', '.join(sorted({str(r.dtype) for r in rows}))}")
    if _arrays.is_tensor(rows[0]):
        return sys.modules["torch"].cat(list(rows))
    return np.concatenate(rows)


def _dtype_word(rows: Any) -> str:
    """What C++ calls the dtype of an array or tensor."""
    return str(rows.dtype).removeprefix("torch.")


def _handed_out(rows: npt.NDArray[Any], dtype: str, tensors: bool) -> Any:
    if not tensors:
        return rows
    import torch

    if not rows.flags.writeable:
        # torch has no read-only tensors: the memory is what ranks of a node share, and writing it ends the process.
        rows = rows.copy()
    tensor = torch.from_numpy(rows)
    return tensor.view(torch.bfloat16) if dtype == "bfloat16" else tensor
