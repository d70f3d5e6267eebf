"""What the keys of each foreign system mean, as tables: one for each kind of job a system has (RL, SFT, DPO).

A key states facts in a vocabulary that all tables share; job.py, stages.py and loss.py turn facts into Evenkeel's keys.

Facts of the job: tp, cp, pp, vpp, vpp_layers and layers (from which vpp follows), ulysses and engine_ulysses (a cp
without zigzag), cp_algo, dynamic_cp and rank_cap (a cp for each micro-batch, and its cap on a rank), prompts and responses
(of a step, of a prompt), mini (prompts of a mini-batch), rank_batch, accumulation and devices (from which ROLL's batches
follow), nodes and gpus, epochs, shuffle, no_shuffle, drop_last, seed, random_mini, balance, packing, loss, norm (what it
divides by), width, prompt_width and sequence_width (of the padded tensor it divides by otherwise), trainer. Facts of a
stage are "STAGE.fact": packed, padded, algorithm, cap, gpu_cap (of one GPU), padded_cap, max_samples, min_count, size,
global_size (over all GPUs), length_round, shuffle, loss, norm.
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
    """A key and the facts it states; of two keys that state the same fact, the later one's wins."""

    path: str  # "{a.b}" in it stands for the value of that key
    facts: str  # separated by blanks
    note: str = ""


class Always(NamedTuple):
    """A key that adds nothing as long as its value is this one."""

    path: str
    value: str
    note: str


class Same(NamedTuple):
    """A key of another model's section: fine when it says the same as the actor's."""

    path: str
    like: str  # the key it is compared with
    fallback: str  # the value of either when it is absent
    counts_when_absent: bool = False  # its section, if it is there, means the fallback when it leaves the key out
    # Other keys, older or newer, for the same value: the one that is not the fallback counts.
    beside: tuple[str, ...] = ()
    like_beside: tuple[str, ...] = ()


class Implied(NamedTuple):
    """A fact that holds when no key states it, in files that have something below `section` (empty: in all)."""

    fact: str
    value: str
    why: str
    section: str = ""


class Stage(NamedTuple):
    """A pass over a step that becomes a profile."""

    name: str
    is_required: bool = False  # the job runs it whether or not the file says how
    idle: Optional[Callable[[Facts], str]] = None  # why this job does not run it; empty when it does
    section: str = ""  # what only an idle stage's keys stand below: "critic."


class Trainer(NamedTuple):
    """How it reduces its losses over micro-batches, which sizes it reads, and where its ranks wait for each other."""

    micro_batches: str
    is_megatron: bool = False  # tp, cp, pp; else Ulysses alone
    meet: str = ""  # balance.meet; empty where its name does not say it, as with experts, or with a stage of ZeRO


@dataclass
class Table:
    system: str
    title: str  # "MindSpeed-RL"
    keys: list[Key]
    stages: list[Stage]  # the first is the training stage
    trainers: dict[str, Trainer]
    outside: dict[str, str]  # none of Evenkeel's business: keys at or below, or "*.name" for all called so -> why
    marks: list[str] = field(default_factory=list)  # paths that only this kind of job has; none: the system's RL
    not_marks: list[str] = field(default_factory=list)  # and that it never has
    always: list[Always] = field(default_factory=list)
    same: list[Same] = field(default_factory=list)
    implied: list[Implied] = field(default_factory=list)
    harmless: list[str] = field(default_factory=list)  # packages and files of defaults lists that decide nothing here
    loss_words: dict[str, str] = field(default_factory=dict)  # of the fact loss -> loss.aggregation
    # How samples of a step are counted: prompts times responses, samples (one update a step), or rank_batches: what one
    # DP rank takes for an update, times DP ranks.
    batch: str = "prompts"
    cost: str = ""  # what it balances by; empty for tokens
    balanced_by_default: bool = True  # over DP ranks
    align_lcm: str = ""  # of its packing; empty for none
    packing_algorithm: str = "load_balance"  # when none is stated
    fully_masked: str = ""  # loss.fully_masked in its means over samples; empty for the default
    norm_note: str = ""  # what seq-mean-token-sum-norm is there

    def annotate(self, ends: tuple[str, ...], note: str) -> None:
        """Gives the keys with these ends a note."""
        self.keys = [key._replace(note=note) if key.path.endswith(ends) else key for key in self.keys]


def axes(section: str) -> list[Key]:
    """The sizes of a Megatron process grid."""
    return [Key(section + key, fact) for key, fact in AXES.items()]


def outside(why: str, keys: str) -> dict[str, str]:
    return dict.fromkeys(keys.split(), why)
