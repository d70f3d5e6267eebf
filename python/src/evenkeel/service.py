"""The service: samples of all ranks in, balanced and packed micro-batches out, results home (docs/python.md)."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from evenkeel import _core
from evenkeel._fields import raise_as_ours
from evenkeel._ranks import exit as _exit
from evenkeel._ranks import ranks_of
from evenkeel.config import Config, ConfigLike
from evenkeel.errors import Error, MpiError, UnknownLengthError
from evenkeel.samples import Samples, core_of
from evenkeel.steps import Step

if TYPE_CHECKING:
    from evenkeel import _service
else:
    from evenkeel._ranks import extension as _service

__all__ = ["DataService"]

T = TypeVar("T")


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

    Where samples arrive while the job trains (``source.kind: stream``), the loop waits for them, and ends when no more will
    come: see publish() and saved().
    """

    def __init__(
        self, group: Any, config: ConfigLike, *, profile: str = "", tensors: str | None = None
    ) -> None:
        self._ranks = ranks_of(group)
        self._profile = profile

        def read() -> Config:
            if tensors not in (None, "torch", "numpy"):
                _core.raise_error("input", "tensors", f"is {tensors!r}; it can be 'torch' or 'numpy'")
            return Config.of(config)

        self._config = _read_for_all(self._ranks, "config", read)
        self._tensors = tensors == "torch" if tensors else "mpi4py.MPI" not in sys.modules or not _is_mpi(group)
        self._core = _service.Service(self._ranks, self._config._core, None, False)
        self._stream: _service.Stream | None = None
        self._ahead: _service.Steps | None = None
        self._is_at_end = False
        self._awaits_samples = self._config.settings()["source.kind"] == "stream"
        self._saves: int | None = None  # the next step after what a state was taken of; None: no state is kept
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
        """By axis (tp, cp, dp, pp): this rank's place along it, and how many there are."""
        return self._core.place()

    def context_groups(self) -> list[list[int]]:
        """The ranks of every group that may run a micro-batch together, over all tp and pp, in one order on all ranks: make a
        process group of each in that order. With ``mesh.cp: flexible`` groups are all powers of two of neighbors, else those
        of the fixed cp."""
        return self._core.context_groups(self._config._core)

    def context_ranks(self, step: Step, micro_batch: int) -> list[int]:
        """The ranks that run a micro-batch of this rank's together, in the order of their numbers in the group."""
        return self._core.context_ranks(step._core, micro_batch)

    def step(self, samples: Samples | Callable[[], Samples], profile: str = "") -> Step:
        """One step over the samples that the ranks bring, each its own; a callable brings them when they are wanted, and what
        it raises all ranks raise."""
        reader = _Reader(samples)
        try:
            return Step(self._core.first_pass(reader.read, profile), self._tensors)
        except Error as told:
            raise reader.with_cause(told)

    def step_again(self, step: Step, profile: str, added: Samples | Callable[[], Samples] | None = None) -> Step:
        """Another pass over the samples of ``step`` under another profile; ``added`` are further fields of this rank's
        samples, with the ids, groups and lengths and in the order in which it brought them, as collect() returns them, or a
        callable that brings them. ``step`` is used up."""
        reader = None if added is None else _Reader(added)
        try:
            read = None if reader is None else reader.read
            return Step(self._core.later_pass(step._core, profile, read), self._tensors)
        except Error as told:
            raise reader.with_cause(told) if reader else told

    def collect(self, step: Step) -> Samples:
        """What was put into the step's micro-batches, for this rank's samples in the order in which it brought them."""
        return Samples._of(self._core.collect(step._core), self._tensors)

    def collect_on(self, step: Step, root: int) -> Samples:
        """The same of all ranks' samples, ordered by id, on rank ``root``; no samples elsewhere."""
        return Samples._of(self._core.collect_on(step._core, root), self._tensors)

    def gradient_scale(
        self,
        step: Step,
        *,
        over: str = "data",
        ranks: str | None = None,
        micro_batches: str | None = None,
        mini_batch: int | None = None,
    ) -> float:
        """What to multiply each micro-batch's ``(loss_weights * losses).sum()`` with, so that the trainer's reductions give
        loss and gradients of the whole mini-batch. Local, the same on all ranks of a step.

        over           the ranks that the trainer reduces gradients over: ``"data"``, those along dp and cp, as Megatron, FSDP
                       and DDP with parallel states do; or ``"all"``, of which those along tp and pp compute the same
        ranks          whether it sums over them or takes their mean; None: what ``loss.dp_ranks`` says
        micro_batches  the same of a rank's micro-batches; None: what ``loss.micro_batches`` says
        mini_batch     which one, where a mean over micro-batches is taken and the step has several mini-batches
        """
        said = self._config.settings()
        ranks = _one_of("ranks", ranks or said["loss.dp_ranks"], "sum", "mean")
        micro_batches = _one_of("micro_batches", micro_batches or said["loss.micro_batches"], "sum", "mean")
        size = {axis: sizes[1] for axis, sizes in self.mesh.items()}
        scale = 1.0
        if _one_of("over", over, "data", "all") == "all" and ranks == "sum":
            scale /= size["tp"] * min(size["pp"], 2)  # the first and the last stage have tokens
        elif ranks == "mean":
            scale *= size["dp"] * size["cp"]
            if over == "all":
                scale *= size["pp"] / min(size["pp"], 2)
        if micro_batches == "mean":
            scale *= _micro_batches_of(step, mini_batch)
        return scale

    def report_time(self, step: Step, micro_batch: int, seconds: float) -> None:
        """How long this rank took for one micro-batch, for ``balance.cost: measured``. Local."""
        self._core.report_time(step._core, micro_batch, seconds)

    def __iter__(self) -> Iterator[Step]:
        """Steps of the configured sources, all epochs of them (``batch.epochs``), from where the service stands. One iteration
        at a time, and none after the last step: InputError. A loop that was left is gone on with by the next one."""
        self._require_steps_left()
        steps = self._steps()
        _exit.end_before_python_does(steps)
        return steps

    def _require_steps_left(self) -> None:
        if self._ahead is not None:
            _core.raise_error("input", "service", "is being iterated, and has one position", "End that iteration first")
        if self._is_at_end:
            if self._awaits_samples:
                _core.raise_error("input", "service", "has delivered all steps: no more samples will come",
                                  "Begin a new buffer for a job with other samples")
            _core.raise_error(
                "input",
                "service",
                f"has delivered all {len(self)} steps of its {self._config.settings()['batch.epochs']} epochs",
                "Set batch.epochs to the number of times samples should come; steps are counted over all of them",
            )

    def _steps(self) -> Iterator[Step]:
        self._require_steps_left()  # another iteration may have begun since
        stream = self._open_stream()
        stream.wait_again()
        self._core.require_same_sources(stream)
        self._ahead = ahead = self._core.steps(stream.read, stream.num_steps, self._profile)
        try:
            while (core := ahead.next()) is not None:
                yield Step(core, self._tensors)
                del core  # its memory serves the next step
                if self._awaits_samples and self._saves is None:
                    stream.trained(self._core.state().next_step)
            self._is_at_end = True
        except MpiError:
            _exit.leave_behind(ahead)  # of this rank alone, whose end would wait for the others
            raise
        finally:
            self._ahead = None
            stream.stop_waiting()  # in the step that is being made
            del ahead  # ends its thread, together with all ranks; a traceback would keep both

    def __len__(self) -> int:
        """Steps of the configured sources. Collective the first time. Raises UnknownLengthError, a TypeError, where samples
        arrive while the job trains."""
        if self._awaits_samples:
            raise UnknownLengthError("service: has no known number of steps: samples arrive while the job trains", "service",
                                     "has no known number of steps: samples arrive while the job trains")
        return self._open_stream().num_steps

    def state_dict(self) -> dict[str, Any]:
        """Where the service stands, of at most 64 KiB, the same on all ranks; does not depend on the mesh."""
        state = self._state()
        if self._awaits_samples:
            if self._has_unsaved_state:
                warnings.warn("state_dict() is called again, and saved() never was since: the buffer keeps the samples of "
                              f"steps from {self._saves} on. Call service.saved() once a state is saved", stacklevel=2)
            self._saves, self._has_unsaved_state = state.next_step, True
        return {"evenkeel": state.to_text()}

    def publish(self, version: int) -> None:
        """The policy has this version from now on: staleness is counted from it, and producers are told it. Call it
        before producers get its weights, since samples of later versions are refused. With ``stream.version: trainer``; otherwise ConfigError, since a version is then the number of a step."""
        if not self._awaits_samples:
            _core.raise_error("config", "source.kind", f"is {self._config.settings()['source.kind']}: nobody is told a version",
                              "Publish versions where samples arrive while the job trains (source.kind: stream)")
        self._open_stream().publish(version)

    def saved(self, state: Mapping[str, Any] | None = None) -> None:
        """A state is where it survives this process, so that the buffer can free the samples of the steps before it: ``state``,
        which state_dict() returned, or the latest one. Where no samples arrive while the job trains, this does nothing.

        Until state_dict(), load_state_dict() or saved() is called for the first time, no state is kept: a step's samples are
        freed when the loop asks for the next step. From then on they are freed by saved() alone. A job that saves its first
        state after many steps calls saved() before its loop, so that it can begin again."""
        if not self._awaits_samples:
            return
        if state is not None:
            next_step = _parsed(state).next_step
        elif self._saves is not None:
            next_step = self._saves
        else:
            next_step = self._state().next_step
        if self._saves is None or next_step >= self._saves:
            self._saves, self._has_unsaved_state = next_step, False
        self._open_stream().trained(next_step)

    def load_state_dict(self, state: Mapping[str, Any], *, accept_changes: bool = False) -> None:
        """Goes on from there: the next step is the one that would have come. Raises ConfigError that lists what changed in
        configuration and sources, unless ``accept_changes``."""
        if self._ahead is not None:
            _core.raise_error("input", "state", "cannot be loaded while steps are iterated", "End the iteration first")
        parsed = _read_for_all(self._ranks, "state", lambda: _parsed(state))
        self._core = _service.Service(self._ranks, self._config._core, parsed, accept_changes)
        self._is_at_end = False
        self._saves, self._has_unsaved_state = parsed.next_step, False
        if parsed.has_sources and not accept_changes:
            self._core.require_same_sources(self._open_stream())

    def _state(self) -> _service.State:
        state = self._core.state()
        if self._stream is not None:
            self._stream.describe(state)
        return state

    def _open_stream(self) -> _service.Stream:
        if self._stream is None:
            profiles = [self._profile] if self._profile else []
            self._stream = _service.Stream(self._ranks, self._config._core, profiles)
        return self._stream


def _read_for_all(ranks: _service.Ranks, where: str, read: Callable[[], T]) -> T:
    """What ``read`` returns, for the service that all ranks make next. What it raises on this rank, all ranks raise."""
    try:
        return read()
    except Exception as error:
        raised = error
    try:
        _service.fail_instead_of_making(ranks, lambda: raise_as_ours(raised, where, "cannot be read"))
    except Error as told:
        if isinstance(raised, Error):
            raise told from raised
    raise raised


def _parsed(state: Mapping[str, Any]) -> _service.State:
    if "evenkeel" not in state:
        _core.raise_error("input", "state", f"has no key 'evenkeel'; there are {', '.join(map(str, state)) or 'none'}")
    return _service.parse_state(state["evenkeel"])


def _one_of(name: str, value: str, *words: str) -> str:
    if value not in words:
        _core.raise_error("input", name, f"is {value!r}; it can be {' or '.join(map(repr, words))}")
    return value


def _micro_batches_of(step: Step, mini_batch: int | None) -> int:
    """Of this rank; all have as many."""
    numbers = {part.mini_batch for part in step}
    if mini_batch is None and len(numbers) > 1:
        _core.raise_error("input", "mini_batch", f"is not given; the step has {len(numbers)}", "Pass micro_batch.mini_batch")
    return sum(mini_batch in (None, part.mini_batch) for part in step)


class _Reader:
    """A program's samples, or what brings them, and what that raised instead of bringing them, which this rank's error has as its cause."""

    def __init__(self, samples: Samples | Callable[[], Samples]) -> None:
        self._samples = samples
        self._raised: BaseException | None = None

    def read(self) -> _service.Samples:
        try:
            return core_of(self._samples() if callable(self._samples) else self._samples)
        except BaseException as error:
            self._raised = error
            raise_as_ours(error, "samples", "could not be brought")

    def with_cause(self, told: Error) -> Error:
        if self._raised is not None and self._raised is not told:
            told.__cause__ = self._raised
        return told


def _is_mpi(group: Any) -> bool:
    return isinstance(group, sys.modules["mpi4py.MPI"].Comm)
