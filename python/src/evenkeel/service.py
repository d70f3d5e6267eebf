"""The service: samples of all ranks in, balanced and packed micro-batches out, results home (docs/python.md)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from evenkeel import _core
from evenkeel._ranks import ranks_of
from evenkeel.config import Config, ConfigLike
from evenkeel.samples import Samples, core_of
from evenkeel.steps import Step

if TYPE_CHECKING:
    from evenkeel import _service
else:
    from evenkeel._ranks import extension as _service

__all__ = ["DataService"]


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

    def context_groups(self) -> list[list[int]]:
        """The ranks of every group that may run a micro-batch together, over all tp and pp, in one order on all ranks: make a
        process group of each in that order. With ``mesh.cp: flexible`` groups are all powers of two of neighbours, else those
        of the fixed cp. Raises ConfigError where ``mesh.context_sizes`` is ``any``: see context_ranks()."""
        return self._core.context_groups(self._config._core)

    def context_ranks(self, step: Step, micro_batch: int) -> list[int]:
        """The ranks that run a micro-batch of this rank's together, in the order of their numbers in the group."""
        return self._core.context_ranks(step._core, micro_batch)

    def step(self, samples: Samples | Callable[[], Samples], profile: str = "") -> Step:
        """One step over the samples that the ranks bring, each its own; a callable brings them when they are wanted, and what
        it raises all ranks raise."""
        self._hand_out_steps_of("own samples")
        read = (lambda: core_of(samples())) if callable(samples) else (lambda: core_of(samples))
        return Step(self._core.first_pass(read, profile), self._tensors)

    def step_again(self, step: Step, profile: str, added: Samples | None = None) -> Step:
        """Another pass over the samples of ``step`` under another profile; ``added`` are further fields of this rank's
        samples, in the order in which it brought them, as collect() returns them. ``step`` is used up."""
        core = None if added is None else core_of(added)
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
