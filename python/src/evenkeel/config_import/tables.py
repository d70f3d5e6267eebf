"""Tables of what the keys of each foreign system mean, one for each kind of job that a system has (RL, SFT, DPO).

A key states facts in a vocabulary that all tables share; job.py, stages.py and loss.py convert facts to Evenkeel's keys.

Facts of the job: tp, cp, pp, vpp, vpp_layers and layers (from which vpp follows), ulysses and engine_ulysses (cp without
zigzag), cp_algo, dynamic_cp and rank_cap (a cp per micro-batch, and its cap per rank), prompts and responses (per step,
per prompt), mini (prompts per mini-batch), rank_batch, accumulation and devices (from which ROLL's batches follow), nodes
and gpus, epochs, shuffle, no_shuffle, drop_last, seed, random_mini, balance, packing, loss, norm (its divisor), width,
prompt_width and sequence_width (of the padded tensor, its divisor without norm), trainer. Facts of a stage are
"STAGE.fact": packed, padded, algorithm, cap, gpu_cap (per GPU), padded_cap, max_samples, min_count, size, global_size
(over all GPUs), length_round, shuffle, loss, norm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Optional

if TYPE_CHECKING:
    from evenkeel.config_import.facts import Facts

PAIRS = "counts pairs: a sample is a pair, chosen and rejected in one sequence"
AXES = {
    "tensor_model_parallel_size": "tp",
    "context_parallel_size": "cp",
    "pipeline_model_parallel_size": "pp",
    "virtual_pipeline_model_parallel_size": "vpp",
}


class Key(NamedTuple):
    """A key and the facts it states. If two keys state the same fact, the later key wins."""

    path: str  # "{a.b}" is replaced by the value of that key
    facts: str  # separated by spaces
    note: str = ""


class Always(NamedTuple):
    """A key that, with this value, describes what Evenkeel always does."""

    path: str
    value: str
    note: str


class Same(NamedTuple):
    """A key of another model's section: accepted if it has the same value as the actor's."""

    path: str
    like: str  # the key it is compared with
    fallback: str  # the value of either one if it is missing
    counts_when_absent: bool = False  # a section that lacks the key has the fallback
    # Other keys, older or newer, for the same value: the one that differs from the fallback counts.
    beside: tuple[str, ...] = ()
    like_beside: tuple[str, ...] = ()


class Implied(NamedTuple):
    """A fact that holds if no key states it, in files that have a key below `section` (if empty, in all files)."""

    fact: str
    value: str
    why: str
    section: str = ""


class Stage(NamedTuple):
    """A pass over a step that becomes a profile."""

    name: str
    is_required: bool = False  # the job runs it whether or not the file mentions it
    idle: Optional[Callable[[Facts], str]] = None  # why this job does not run it; empty if it does
    section: str = ""  # the prefix of keys that are not used if it is idle: "critic."


class Trainer(NamedTuple):
    """How a trainer reduces its losses over micro-batches, which sizes it reads, and where its ranks synchronize."""

    micro_batches: str
    is_megatron: bool = False  # reads tp, cp and pp; otherwise only Ulysses
    meet: str = ""  # balance.meet; empty if other settings determine it, such as experts or the ZeRO stage


@dataclass
class Table:
    system: str
    title: str  # "MindSpeed-RL"
    keys: list[Key]
    stages: list[Stage]  # the first is the training stage
    trainers: dict[str, Trainer]
    outside: dict[str, str]  # irrelevant to Evenkeel: keys at or below a path, or "*.name" for all keys with that name -> why
    marks: list[str] = field(default_factory=list)  # paths that only this kind of job has; empty for the default
    not_marks: list[str] = field(default_factory=list)  # paths that it never has
    always: list[Always] = field(default_factory=list)
    same: list[Same] = field(default_factory=list)
    implied: list[Implied] = field(default_factory=list)
    harmless: list[str] = field(default_factory=list)  # packages and files of defaults lists that have no effect here
    loss_words: dict[str, str] = field(default_factory=dict)  # values of the fact loss -> loss.aggregation
    # How the samples of a step are counted: prompts times responses, samples (a step is one update), or rank_batches
    # (samples that one DP rank takes for an update, times DP ranks).
    batch: str = "prompts"
    cost: str = ""  # the cost that it balances; empty for tokens
    balanced_by_default: bool = True  # over DP ranks
    align_lcm: str = ""  # pack.align_lcm of its packing; empty for the default
    packing_algorithm: str = "load_balance"  # the one used if no key states it
    fully_masked: str = ""  # loss.fully_masked in its means over samples; empty for the default
    norm_note: str = ""  # what seq-mean-token-sum-norm means in this system

    def annotate(self, ends: tuple[str, ...], note: str) -> None:
        """Adds a note to the keys with these endings."""
        self.keys = [key._replace(note=note) if key.path.endswith(ends) else key for key in self.keys]


def axes(section: str) -> list[Key]:
    """Returns the keys with the sizes of a Megatron process grid."""
    return [Key(section + key, fact) for key, fact in AXES.items()]


def outside(why: str, keys: str) -> dict[str, str]:
    return dict.fromkeys(keys.split(), why)
