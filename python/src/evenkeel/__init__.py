"""Evenkeel balances, packs and context-parallel-cuts samples of very different lengths for LLM training.

    >>> import evenkeel
    >>> plan = evenkeel.plan([5, 3, 4, 2], mesh={"dp": 2}, micro_batch={"max_tokens": 8})
    >>> [rank.samples.tolist() for rank in plan.ranks]
    [[1, 2], [0, 3]]

This module contains what most programs need; evenkeel.balance, .packing, .padding, .prefix, .planning, .routes and
.tensors contain everything. Nothing here needs MPI, and torch is only needed for arguments that are tensors. Errors are
Error and its subclasses (see evenkeel.errors). Producer sends samples to a buffer and also works without the C
library."""

from importlib.util import find_spec
from pathlib import Path

from evenkeel import errors, producer, rollouts
from evenkeel.errors import (
    ConfigError,
    EndOfSamples,
    Error,
    InputError,
    IoError,
    LimitError,
    MeshError,
    MissingFieldError,
    MpiError,
    UnknownLengthError,
)
from evenkeel.producer import Producer

__all__ = [
    "Config",
    "ConfigError",
    "CostModel",
    "CpGroup",
    "DataService",
    "DpRankPlan",
    "EndOfSamples",
    "Error",
    "InputError",
    "IoError",
    "LimitError",
    "MeshError",
    "MissingFieldError",
    "MicroBatch",
    "MicroBatchLoss",
    "MicroBatchPlan",
    "MpiError",
    "PackedLayout",
    "PackedTreeLayout",
    "Partition",
    "Predictions",
    "PrefixGroups",
    "PrefixLayout",
    "PrefixTree",
    "Producer",
    "Samples",
    "Step",
    "StepPlan",
    "TokenPlaces",
    "UnknownLengthError",
    "Watchdog",
    "balance",
    "config",
    "errors",
    "karmarkar_karp",
    "memory",
    "merge",
    "micro_batch_tensors",
    "pack",
    "pack_all",
    "packing",
    "padding",
    "plan",
    "planning",
    "prefix",
    "producer",
    "rollouts",
    "routes",
    "runs",
    "samples",
    "sequence_alignment",
    "service",
    "steps",
    "tensors",
    "unpack",
    "watchdog",
]

_missing = [what for what, is_there in (("the C library", (Path(__file__).parent / "libevenkeel.so").exists()),
                                        ("NumPy", find_spec("numpy") is not None)) if not is_there]

if not _missing:
    from evenkeel import (
        _c,
        balance,
        config,
        memory,
        packing,
        padding,
        planning,
        prefix,
        routes,
        runs,
        samples,
        service,
        steps,
        tensors,
        watchdog,
    )
    from evenkeel.balance import CostModel, Partition, karmarkar_karp
    from evenkeel.config import Config
    from evenkeel.packing import CpGroup, PackedLayout, merge, pack, pack_all, sequence_alignment, unpack
    from evenkeel.planning import DpRankPlan, MicroBatchLoss, MicroBatchPlan, StepPlan, plan
    from evenkeel.prefix import PackedTreeLayout, Predictions, PrefixGroups, PrefixLayout, PrefixTree, TokenPlaces
    from evenkeel.samples import Samples
    from evenkeel.service import DataService
    from evenkeel.steps import MicroBatch, Step
    from evenkeel.tensors import micro_batch_tensors
    from evenkeel.watchdog import Watchdog

    __version__ = _c.text(_c.lib.evenkeel_version())
else:

    def __getattr__(name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        raise ImportError(f"evenkeel.{name} needs {' and '.join(_missing)}, which the package in {__path__[0]} did not "
                          "find. evenkeel.Producer works without")
