"""Evenkeel balances, packs and context-parallel-cuts samples of very different lengths for LLM training.

    >>> import evenkeel
    >>> plan = evenkeel.plan([5, 3, 4, 2], mesh={"dp": 2}, micro_batch={"max_tokens": 8})
    >>> [rank.samples.tolist() for rank in plan.ranks]
    [[1, 2], [0, 3]]

This module has what most programs need; evenkeel.balance, .packing, .padding, .prefix, .planning and .tensors have all of
it. Nothing here needs MPI, and torch only where tensors are handed in. Errors are Error and its subclasses (see
evenkeel.errors).
"""

from evenkeel import _core, balance, config, errors, memory, packing, padding, planning, prefix, runs, samples, service, steps, tensors, watchdog
from evenkeel.balance import CostModel, Partition, karmarkar_karp
from evenkeel.config import Config
from evenkeel.errors import ConfigError, Error, InputError, IoError, LimitError, MeshError, MissingFieldError, MpiError
from evenkeel.packing import CpGroup, PackedLayout, merge, pack, pack_all, sequence_alignment, unpack
from evenkeel.planning import DpRankPlan, MicroBatchLoss, MicroBatchPlan, StepPlan, plan
from evenkeel.prefix import PackedTreeLayout, Predictions, PrefixGroups, PrefixLayout, PrefixTree, TokenPlaces
from evenkeel.samples import Samples
from evenkeel.service import DataService
from evenkeel.steps import MicroBatch, Step
from evenkeel.tensors import micro_batch_tensors
from evenkeel.watchdog import Watchdog

__version__ = _core.__version__

__all__ = [
    "Config",
    "ConfigError",
    "CostModel",
    "CpGroup",
    "DataService",
    "DpRankPlan",
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
    "Samples",
    "Step",
    "StepPlan",
    "TokenPlaces",
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
    "runs",
    "samples",
    "sequence_alignment",
    "service",
    "steps",
    "tensors",
    "unpack",
    "watchdog",
]

# C++ classes say where users find them, which is also where pickle looks.
for _name in __all__:
    if getattr(globals()[_name], "__module__", "") == "evenkeel._core":
        globals()[_name].__module__ = "evenkeel"
del _name
