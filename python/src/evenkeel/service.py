"""The service: balances, packs and exchanges the samples of all ranks, and returns results to the ranks that provided
the samples (docs/python.md)."""

from __future__ import annotations

import ctypes
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from evenkeel import _arrays, _c
from evenkeel import _prototypes as c
from evenkeel._c import service as lib
from evenkeel._ranks import Ranks, ranks_of
from evenkeel._ranks import exit as _exit
from evenkeel._text import counted
from evenkeel.config import Config, ConfigLike
from evenkeel.errors import Error, MpiError, UnknownLengthError
from evenkeel.samples import Samples, core_of, samples_of_error
from evenkeel.steps import Pass, Step

__all__ = ["DataService"]

T = TypeVar("T")


class DataService:
    """Balances, packs and exchanges the samples of each step over the ranks of a group.

    group    a communicator of mpi4py, or a process group of torch.distributed. Plans and bytes are the same with either
    config   a Config, or a value that Config accepts: a mapping or the path of a file
    profile  the profile of the steps that iteration yields; "" means the job's own settings
    tensors  "torch" or "numpy": the type of the returned fields. None: tensors with a process group, arrays with a
             communicator

    All methods are collective, except those documented as local: every rank of the group calls them, in the same order.
    Properties are local. Errors are raised on every rank.

    Iterating yields the steps of the sources that the configuration names. ``exchange.prefetch`` steps are made ahead:

        service = evenkeel.DataService(torch.distributed.group.WORLD, "job.yaml")
        for step in service:
            for micro_batch in step.micro_batches:
                ...

    If samples arrive while the job trains (``source.kind: stream``), the loop waits for them. It ends when no more
    samples will come: see publish() and report_saved().
    """

    def __init__(
        self, group: Any, config: ConfigLike, *, profile: str = "", tensors: str | None = None
    ) -> None:
        self._ranks = ranks_of(group)
        self._profile = profile

        def read() -> Config:
            if tensors not in (None, "torch", "numpy"):
                _c.raise_error("input", "tensors", f"is {tensors!r}; it must be 'torch' or 'numpy'")
            return Config.of(config)

        self._config = _read_for_all(self._ranks, "config", read)
        self._tensors = tensors == "torch" if tensors else "mpi4py.MPI" not in sys.modules or not _is_mpi(group)
        self._core = self._create(lib.evenkeel_service_create)
        self._stream: _arrays.Handle | None = None
        self._is_iterated = False
        self._is_at_end = False
        self._awaits_samples = self._config.settings()["source.kind"] == "stream"
        self._state_step: int | None = None  # next step of the latest state; None: no state is kept
        self._has_unsaved_state = False

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
        """This rank's place in the mesh: for each axis (tp, cp, dp, pp), its coordinate and the size of the axis."""
        place = c.evenkeel_place()
        lib.evenkeel_service_get_place(self._core, place)
        return {axis: (getattr(place, axis), getattr(place, f"{axis}_size")) for axis in ("tp", "cp", "dp", "pp")}

    def context_groups(self) -> list[list[int]]:
        """Returns the ranks of every group that may run a micro-batch together, over all tp and pp. Local.

        The order is the same on all ranks: make a process group for each list in that order. With ``mesh.cp: flexible``
        the groups are all aligned groups of neighbors whose size is a power of two, up to ``mesh.max_cp``; otherwise
        they are the groups of the fixed cp."""
        found = _arrays.named_arrays(lib.evenkeel_service_context_groups, self._core)
        ranks, offsets = found["ranks"].tolist(), found["offsets"].tolist()
        return [ranks[begin:end] for begin, end in zip(offsets, offsets[1:])]

    def context_ranks(self, step: Step, micro_batch: int) -> list[int]:
        """Returns the ranks that run a micro-batch of this rank together, in the order of their numbers in that group.
        Local.

        The place of this rank in the list is ``micro_batch.context[2]``."""
        size = step.micro_batches[micro_batch].context[1]
        return next(ranks for ranks in self.context_groups() if len(ranks) == size and self.rank in ranks)

    def step(self, samples: Samples | Callable[[], Samples], profile: str = "") -> Step:
        """Makes one step from samples that the ranks provide.

        samples  this rank's samples, or a callable that returns them. An exception that it raises is raised on all
                 ranks
        profile  the profile of the step; "" means the job's own settings"""
        reader = _Reader(samples)
        try:
            brought = reader.read()
            pointer = _arrays.create(lib.evenkeel_service_step, self._core, brought, _c.encoded(profile))
            return Step(Pass(pointer), self._tensors, reader.seconds)
        except Error as error:
            raise reader.with_cause(error)  # noqa: B904, which has its cause

    def step_again(self, step: Step, profile: str, added: Samples | Callable[[], Samples] | None = None) -> Step:
        """Makes another pass over the samples of ``step``, under another profile.

        step     cannot be used afterwards, even if the call fails
        profile  the profile of the new pass
        added    further fields of this rank's samples, or a callable that returns them. They have the ids, groups and
                 lengths of the samples that this rank provided, in the same order, as collect() returns them"""
        reader = None if added is None else _Reader(added)
        try:
            brought, later = None if reader is None else reader.read(), step._pass.for_next_pass()
            lib.evenkeel_service_step_again(self._core, later, _c.encoded(profile), brought)
            return Step(later, self._tensors, 0.0 if reader is None else reader.seconds)
        except Error as error:
            raise reader.with_cause(error) if reader else error  # noqa: B904, which has its cause

    def collect(self, step: Step) -> Samples:
        """Returns the results that were put into the step's micro-batches, for this rank's samples in the order in
        which it provided them."""
        return self._collect(lib.evenkeel_service_collect, step)

    def collect_on(self, step: Step, root: int) -> Samples:
        """Returns the results of all ranks' samples, ordered by id, on rank ``root``, and no samples on the other
        ranks."""
        return self._collect(lib.evenkeel_service_collect_on, step, _c.int32(root))

    def _collect(self, function: Any, step: Step, *root: int) -> Samples:
        pointer = _arrays.create(function, self._core, step._pass, step._pass.results, *root)
        return Samples._of(_arrays.Handle(pointer, lib.evenkeel_samples_destroy), self._tensors)

    def gradient_scale(
        self,
        step: Step,
        *,
        over: str = "data",
        dp_ranks: str | None = None,
        micro_batches: str | None = None,
        mini_batch: int | None = None,
    ) -> float:
        """Returns the factor for each micro-batch's ``(loss_weights * losses).sum()`` with which the trainer's
        reductions give the loss and the gradients of the whole mini-batch.

        over           the ranks over which the trainer reduces gradients: "data", those along dp and cp, as Megatron,
                       FSDP and DDP with parallel states do; or "all", if ranks along tp and pp compute the same loss
        dp_ranks       "sum" or "mean": how the trainer reduces over these ranks. None: the value of ``loss.dp_ranks``
        micro_batches  "sum" or "mean": how the trainer reduces over a rank's micro-batches. None: the value of
                       ``loss.micro_batches``
        mini_batch     the mini-batch, if the trainer takes a mean over micro-batches and the step has several
                       mini-batches

        Local. The factor is the same on all ranks of a step, unless the trainer takes a mean over micro-batches and
        ranks have different numbers of them (docs/micro-batches.md#equal-numbers-of-micro-batches).
        """
        settings = self._config.settings()
        dp_ranks = _require_one_of("dp_ranks", dp_ranks or settings["loss.dp_ranks"], "sum", "mean")
        micro_batches = _require_one_of("micro_batches", micro_batches or settings["loss.micro_batches"], "sum", "mean")
        size = {axis: sizes[1] for axis, sizes in self.mesh.items()}
        scale = 1.0
        if _require_one_of("over", over, "data", "all") == "all" and dp_ranks == "sum":
            scale /= size["tp"] * min(size["pp"], 2)  # only the first and the last stage have tokens
        elif dp_ranks == "mean":
            scale *= size["dp"] * size["cp"]
            if over == "all":
                scale *= size["pp"] / min(size["pp"], 2)
        if micro_batches == "mean":
            scale *= _count_micro_batches(step, mini_batch)
        return scale

    def report_time(self, step: Step, micro_batch: int, seconds: float) -> None:
        """Reports the seconds that this rank took for one micro-batch, for ``balance.cost: measured``. Local."""
        lib.evenkeel_service_report_time(self._core, step._pass, micro_batch, seconds)

    def __iter__(self) -> Iterator[Step]:
        """Iterates over the steps of the configured sources, from the service's position to the end of the last epoch
        (``batch.epochs``).

        Only one iteration can run at a time. If a loop was left, the next one continues it. Raises InputError if
        another iteration is running, and after the last step."""
        self._require_steps_left()
        steps = self._steps()
        _exit.close_at_exit(steps)
        return steps

    def _require_steps_left(self) -> None:
        if self._is_iterated:
            _c.raise_error("input", "service", "is already being iterated; only one iteration is possible at a time",
                           "End that iteration first")
        if self._is_at_end:
            if self._awaits_samples:
                _c.raise_error("input", "service", "has delivered all steps: no more samples will arrive",
                                  "Begin a new buffer for a job with other samples")
            _c.raise_error(
                "input",
                "service",
                f"has delivered all {counted(len(self), 'step')} of its {counted(self._config.settings()['batch.epochs'], 'epoch')}",
                "Set batch.epochs to the number of epochs to train; steps are counted over all of them",
            )

    def _steps(self) -> Iterator[Step]:
        self._require_steps_left()  # again: another iteration may have started since __iter__
        stream = self._open_stream()
        self._is_iterated = True
        try:
            while (pointer := _arrays.create(lib.evenkeel_stream_next, stream)):
                step = Step(Pass(pointer), self._tensors)
                index = step.index
                yield step
                del step  # so that the next step can use its memory
                if self._awaits_samples and self._state_step is None:
                    lib.evenkeel_stream_report_saved_before(stream, index + 1)
            self._is_at_end = True
        except MpiError:
            _exit.keep_until_exit(stream)  # only this rank failed: destroying it would wait for the others
            self._stream = None
            raise
        finally:
            self._is_iterated = False
            if self._stream is not None:
                lib.evenkeel_stream_stop(stream)  # collective

    def __len__(self) -> int:
        """Number of steps of the configured sources, over all epochs. The first call is collective.

        Raises UnknownLengthError, which is a TypeError, if samples arrive while the job trains."""
        if self._awaits_samples:
            raise UnknownLengthError("service: has no known number of steps: samples arrive while the job trains", "service",
                                     "has no known number of steps: samples arrive while the job trains")
        return int(lib.evenkeel_stream_num_steps(self._open_stream()))

    def state_dict(self) -> dict[str, Any]:
        """Returns the service's position, at most 64 KiB. It is the same on all ranks and does not depend on the mesh."""
        state = self._state()
        if self._awaits_samples:
            if self._has_unsaved_state:
                warnings.warn("state_dict() was called again, but report_saved() was not called in between: the buffer keeps the "
                              f"samples of steps from {self._state_step} on. Call service.report_saved() once a state is saved", stacklevel=2)
            self._state_step, self._has_unsaved_state = state.next_step, True
        return {"evenkeel": state.text}

    def publish(self, version: int) -> None:
        """Announces that the policy has this version from now on. Staleness is counted from it, and producers are
        notified.

        Call it before producers get the weights of this version, since samples of later versions are refused. Raises
        ConfigError unless ``stream.version`` is ``trainer``; otherwise a version is the number of a step."""
        if not self._awaits_samples:
            _c.raise_error("config", "source.kind", f"is {self._config.settings()['source.kind']}, which does not use policy versions",
                              "Call publish() only if samples arrive while the job trains (source.kind: stream)")
        lib.evenkeel_stream_publish(self._open_stream(), _c.int64(version))

    def report_saved(self, state: Mapping[str, Any] | None = None) -> None:
        """Reports that a state has been stored such that it survives this process, so the buffer can free the samples
        of the steps before it.

        state  a state that state_dict() returned; None: the latest one

        Has no effect if no samples arrive while the job trains.

        Until the first call of state_dict(), load_state_dict() or report_saved(), the job is taken to keep no state: the
        samples of a step are freed when the loop asks for the next step. After that, only report_saved() frees them. If
        a job saves its first state after many steps, call report_saved() before its loop, so that the job can start
        again from the beginning."""
        if not self._awaits_samples:
            return
        if state is not None:
            next_step = _parse_state(state).next_step
        elif self._state_step is not None:
            next_step = self._state_step
        else:
            next_step = self._state().next_step
        if self._state_step is None or next_step >= self._state_step:
            self._state_step, self._has_unsaved_state = next_step, False
        lib.evenkeel_stream_report_saved_before(self._open_stream(), next_step)

    def load_state_dict(self, state: Mapping[str, Any], *, accept_changes: bool = False) -> None:
        """Continues from the position of ``state``: the next step is the one that would have come next.

        Raises ConfigError that lists the changes in the configuration and the sources, unless ``accept_changes``.
        Raises InputError during an iteration, and for a state that is not one or was modified."""
        if self._is_iterated:
            _c.raise_error("input", "state", "cannot be loaded while steps are iterated", "End the iteration first")
        parsed = _read_for_all(self._ranks, "state", lambda: _parse_state(state))
        self._stream = None  # it belongs to the previous service
        text = _c.encoded(parsed.text)
        self._core = self._create(lib.evenkeel_service_resume, text, len(text), accept_changes)
        self._is_at_end = False
        self._state_step, self._has_unsaved_state = parsed.next_step, False
        if parsed.has_sources and not accept_changes:
            self._open_stream()

    def _create(self, function: Any, *state: Any) -> _arrays.Handle:
        pointer = _arrays.create(function, self._ranks, self._config._handle, *state)
        return _arrays.Handle(pointer, lib.evenkeel_service_destroy)

    def _state(self) -> _State:
        text, size = ctypes.c_void_p(), ctypes.c_int64()
        if self._stream is None:
            lib.evenkeel_service_state(self._core, ctypes.byref(text), ctypes.byref(size))
        else:
            lib.evenkeel_stream_state(self._stream, ctypes.byref(text), ctypes.byref(size))
        try:
            return _State.of(_c.text(ctypes.string_at(text.value or 0, size.value)))
        finally:
            _c.lib.evenkeel_buffer_free(text)

    def _open_stream(self) -> _arrays.Handle:
        if self._stream is None:
            profiles = (ctypes.c_char_p * 1)(_c.encoded(self._profile))
            pointer = _arrays.create(lib.evenkeel_stream_create, self._core, profiles, 1 if self._profile else 0)
            self._stream = _arrays.Handle(pointer, lib.evenkeel_stream_destroy)
        return self._stream


class _State(NamedTuple):
    """A position of a service."""

    text: str
    next_step: int
    has_sources: bool

    @classmethod
    def of(cls, text: str) -> _State:
        encoded, next_step, has_sources = _c.encoded(text), ctypes.c_int64(), ctypes.c_int32()
        lib.evenkeel_state_inspect(encoded, len(encoded), ctypes.byref(next_step), ctypes.byref(has_sources))
        return cls(text, next_step.value, bool(has_sources.value))


def _read_for_all(ranks: Ranks, where: str, read: Callable[[], T]) -> T:
    """Returns what ``read`` returns, for the service that all ranks make next. If it raises an exception on this rank,
    all ranks raise an error."""
    try:
        return read()
    except Exception as error:
        raised = error
    try:
        lib.evenkeel_ranks_fail(ranks, _c.note(raised, where, "cannot be read"))
    except Error as error:
        if isinstance(raised, Error):
            raise error from raised
    raise raised


def _parse_state(state: Mapping[str, Any]) -> _State:
    if "evenkeel" not in state:
        _c.raise_error("input", "state", f"has no key 'evenkeel'; its keys are: {', '.join(map(str, state)) or 'none'}",
                       "Pass what state_dict() returned")
    return _State.of(state["evenkeel"])


def _require_one_of(name: str, value: str, *words: str) -> str:
    if value not in words:
        _c.raise_error("input", name, f"is {value!r}; it can be {' or '.join(map(repr, words))}")
    return value


def _count_micro_batches(step: Step, mini_batch: int | None) -> int:
    """Number of this rank's micro-batches in a mini-batch, or in a step with one mini-batch."""
    numbers = {part.mini_batch for part in step}
    if mini_batch is None and len(numbers) > 1:
        _c.raise_error("input", "mini_batch", f"was not passed, but the step has {len(numbers)} mini-batches",
                       "Pass micro_batch.mini_batch")
    if mini_batch is not None and mini_batch not in numbers:
        _c.raise_error("input", "mini_batch", f"is {mini_batch}, but the step has the mini-batches {sorted(numbers)}", "Pass one of them")
    return sum(mini_batch in (None, part.mini_batch) for part in step)


class _Reader:
    """Reads samples that the program provides, or calls the function that returns them. Keeps the exception of that
    function, which becomes the cause of this rank's error."""

    def __init__(self, samples: Samples | Callable[[], Samples]) -> None:
        self._samples = samples
        self._raised: BaseException | None = None
        self.seconds = 0.0

    def read(self) -> _arrays.Handle:
        start = time.perf_counter()
        try:
            return core_of(self._samples() if callable(self._samples) else self._samples)
        except BaseException as error:
            self._raised = error
            return samples_of_error(error)
        finally:
            self.seconds = time.perf_counter() - start

    def with_cause(self, error: Error) -> Error:
        if self._raised is not None and self._raised is not error:
            error.__cause__ = self._raised
        return error


def _is_mpi(group: Any) -> bool:
    return isinstance(group, sys.modules["mpi4py.MPI"].Comm)
