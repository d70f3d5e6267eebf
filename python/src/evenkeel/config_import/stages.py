"""Imports the micro-batches of each pass over a step as profiles; those of training also become the job's own."""

from __future__ import annotations

from typing import NamedTuple

from evenkeel._text import counted
from evenkeel.config_import.facts import LARGEST_COUNT, Facts, default_of_setting
from evenkeel.config_import.tables import Stage

_ALL = "packed padded algorithm cap gpu_cap padded_cap max_samples min_count size global_size length_round shuffle"


class _Setting(NamedTuple):
    """The value of a key in a stage's micro_batch section."""

    value: object
    facts: str
    note: str = ""
    why: str = ""  # the reason, if no key states the value


class _StageReader:
    """Reads the settings of one stage."""

    def __init__(self, facts: Facts, rule: Stage) -> None:
        self.facts = facts
        self.rule = rule
        self.mode = ""  # empty if the file does not specify it
        self.settings: dict[str, _Setting] = {}
        self.is_asked_for = rule.is_required or facts.mentions_stage(rule.name)
        if facts.has_flexible_cp():
            self.read_flexible()
        else:
            self.read()

    def fact(self, names: str) -> str:
        return " ".join(f"{self.rule.name}.{name}" for name in names.split())

    def integer(self, name: str) -> int | None:
        return self.facts.integer(self.fact(name))

    def path_of(self, key: str) -> str:
        is_training = self.rule.name == self.facts.table.stages[0].name
        return f"micro_batch.{key}" if is_training else f"profiles.{self.rule.name}.micro_batch.{key}"

    def read_flexible(self) -> None:
        """All passes are packed under one cap, regardless of what they would do with a fixed cp."""
        if self.is_asked_for:
            self.settings["mode"] = _Setting("packed", "dynamic_cp")
            self.settings["max_tokens_per_rank"] = _Setting(self.facts.integer("rank_cap"), "rank_cap")
        self.facts.settle(self.fact("packed"), "")
        why = "with mesh.cp: flexible its micro-batches are packed under max_tokens_per_rank"
        self.facts.leave(self.fact(_ALL), why)

    def read(self) -> None:
        self.read_mode()
        if self.mode == "packed" or (self.mode == "fixed" and self.is_packed()):
            self.read_cap()
        if self.mode == "packed":
            self.add_integer("max_samples")
            self.add_integer("min_count")
        if self.mode == "padded":
            self.add_integer("max_tokens", "padded_cap")
            self.add_integer("length_round")
        if self.mode == "fixed":
            self.read_size()
            # The plain split only counts samples; Evenkeel's own cap would make its micro-batches smaller.
            self.settings.setdefault("max_tokens", _Setting(LARGEST_COUNT, "", why="no cap there"))
        # Only the plain split shuffles, but every mode accepts shuffle: false.
        shuffle = self.facts.flag(self.fact("shuffle"))
        if shuffle is not None and (not shuffle or self.mode in ("fixed", "")):
            self.settings["shuffle"] = _Setting(shuffle, self.fact("shuffle"))
        why = f"has no effect when micro_batch.mode is {self.mode}"
        self.facts.leave(self.fact(_ALL), why if self.mode else "how micro-batches are cut is not in this file")

    def is_packed(self) -> bool:
        return self.facts.flag(self.fact("packed")) is True

    def read_mode(self) -> None:
        facts = self.facts
        if self.is_packed():
            algorithm = facts.word(self.fact("algorithm"))
            if not facts.is_lost(self.fact("algorithm")):
                modes = {"load_balance": "packed", "none": "fixed"}
                mode = modes.get(facts.table.packing_algorithm if algorithm is None else algorithm)
                if mode is None:
                    facts.refuse(self.fact("algorithm"), "expected none or load_balance")
                self.set_mode(mode, "packed algorithm")
        elif facts.is_lost(self.fact("packed")):
            return
        elif facts.flag(self.fact("padded")) is True:
            self.set_mode("padded", "padded")
        elif not facts.is_lost(self.fact("padded")) and any(map(facts.has, self.fact("size global_size").split())):
            self.set_mode("fixed", "packed padded size global_size")

    def set_mode(self, mode: str, facts: str) -> None:
        self.mode = mode
        self.settings["mode"] = _Setting(mode, self.fact(facts))

    def add_integer(self, key: str, name: str = "") -> None:
        value = self.integer(name or key)
        if value is not None:
            self.settings[key] = _Setting(value, self.fact(name or key))

    def read_cap(self) -> None:
        self.add_integer("max_tokens", "cap")
        of_gpu = self.integer("gpu_cap")
        if of_gpu is None:
            return
        cap = self.fact("gpu_cap")
        if any(map(self.facts.is_lost, ("cp", "ulysses", "engine_ulysses"))):
            why = "is the cap of one GPU, but the number of GPUs that share a sequence was not found"
            self.facts.miss(self.path_of("max_tokens"), cap, why)
            return
        gpus = self.facts.mesh_size("cp")
        if of_gpu * gpus > LARGEST_COUNT:
            self.facts.refuse(cap, f"must be at most {LARGEST_COUNT} after multiplication by {counted(gpus, 'GPU')} that share a sequence")
        note = f"for one GPU there, for the CP group here: multiplied by {gpus}" if gpus > 1 else ""
        self.settings["max_tokens"] = _Setting(of_gpu * gpus, cap, note)

    def read_size(self) -> None:
        if self.facts.has(self.fact("size")):
            self.add_integer("size")
            return
        over_all, nodes, gpus = self.integer("global_size"), self.facts.integer("nodes"), self.facts.integer("gpus")
        size = self.fact("global_size")
        if over_all is None:
            return
        if nodes is None or gpus is None:
            self.facts.miss(self.path_of("size"), size, "is for all GPUs, whose number was not found")
            return
        of_model = self.facts.mesh_size("tp") * self.facts.mesh_size("cp") * self.facts.mesh_size("pp")
        ranks = nodes * gpus // of_model
        if ranks < 1:
            self.facts.refuse("gpus", f"must, multiplied by {counted(nodes, 'node')}, be at least {of_model}, the product of tp, cp and pp")
        if over_all < ranks:
            self.facts.refuse(size, f"must be at least {ranks}, the number of DP ranks")
        self.settings["size"] = _Setting(over_all // ranks, size, "for all GPUs there, for one DP rank here")

    def want_the_rest(self) -> None:
        """Records which required settings are missing. Call it after the settings are set."""
        if self.facts.has_flexible_cp():
            return
        if not self.mode:
            if self.is_asked_for:
                why = "the keys do not specify how this pass cuts its micro-batches"
                self.want("mode", "packed padded size global_size", why)
        elif self.mode == "fixed":
            self.want("size", "size global_size", "its micro-batches have a fixed size, but no key sets it")
        else:
            cap = "padded_cap" if self.mode == "padded" else "cap"
            self.want("max_tokens", f"{cap} gpu_cap", "its micro-batches have a cap, but no key sets it")

    def want(self, key: str, names: str, why: str) -> None:
        self.facts.want(self.path_of(key), self.fact(names).split(), why)

    def set_all(self, section: str) -> None:
        for key, it in self.settings.items():
            if it.why:
                self.facts.set_because(section + key, str(it.value), it.why)
            else:
                self.facts.set(section + key, it.value, it.facts, it.note)


def _keep_defaults(facts: Facts, section: str, stage: _StageReader, training: _StageReader) -> None:
    """Sets defaults for settings that a profile would otherwise inherit from the job although its stage does not specify
    them. A cap and a size that a stage needs but does not specify are reported as missing."""
    if "mode" not in stage.settings:
        return
    of_mode = {"padded": ["length_round"], "fixed": ["size"]}
    for key in ["max_tokens", "max_samples", "min_count", "shuffle", *of_mode.get(str(stage.settings["mode"].value), [])]:
        if key in training.settings and key not in stage.settings:
            is_needed = key in ("max_tokens", "size")
            why = "not found: Evenkeel's default" if is_needed else "only training sets it"
            facts.set_because(section + key, default_of_setting(f"micro_batch.{key}"), why)


def import_stages(facts: Facts) -> None:
    training: _StageReader | None = None
    for rule in facts.table.stages:
        why = rule.idle(facts) if rule.idle else ""
        if why:
            facts.left_sections.append((rule.section, why))
            continue
        stage = _StageReader(facts, rule)
        section = f"profiles.{rule.name}.micro_batch."
        if training is None:
            stage.set_all("micro_batch.")
        stage.set_all(section)
        stage.want_the_rest()
        if training is not None:
            _keep_defaults(facts, section, stage, training)
        training = training or stage
    _import_packing(facts)


def _import_packing(facts: Facts) -> None:
    """Imports the key for packing. It sets the mode only if nothing else does, since Evenkeel always packs without padding."""
    packing = facts.flag("packing")
    if packing is False:
        facts.leave("packing", "Evenkeel packs samples, so nothing is computed on padding")
    elif packing and "micro_batch.mode" not in facts.settings:
        facts.set("micro_batch.mode", "packed", "packing")
    elif packing:
        facts.settle("packing", "always true in Evenkeel: micro-batches are packed without padding")
