"""Imports the process grid, batches and balance of the job."""

from __future__ import annotations

from evenkeel._text import counted
from evenkeel.config_import.facts import LARGEST_COUNT, Facts
from evenkeel.config_import.tables import Trainer


def trainer_of(facts: Facts) -> Trainer | None:
    return facts.table.trainers.get(facts.word("trainer") or "")


def import_mesh(facts: Facts) -> None:
    trainer = trainer_of(facts)
    cp = ["cp", "ulysses", "engine_ulysses"]
    on_megatron = trainer is None or trainer.is_megatron
    if on_megatron:
        for axis in ("tp", "pp", "vpp"):
            facts.set(f"mesh.{axis}", facts.integer(axis), axis)
        _import_vpp_of_layers(facts)
    else:
        why = f"only Megatron reads it, and this job trains with {facts.word('trainer')}"
        facts.leave("tp pp vpp cp dynamic_cp rank_cap", why)
        cp = ["ulysses", "engine_ulysses"]
    if trainer is not None and trainer.is_megatron:
        facts.leave("ulysses engine_ulysses", "Megatron does not read it")
        cp = ["cp"]
    is_dynamic = on_megatron and facts.flag("dynamic_cp") is True
    if is_dynamic and facts.integer("rank_cap") is not None:
        _import_flexible_cp(facts)
        return
    _import_cp(facts, cp)
    why = "cp is the same for all micro-batches"
    if is_dynamic:
        why = "each micro-batch has its own cp, but the cap per rank was not found"
        facts.miss("mesh.cp", "dynamic_cp", why)
    if on_megatron:
        facts.leave("dynamic_cp rank_cap", why)


def _import_vpp_of_layers(facts: Facts) -> None:
    """Imports the number of layers per virtual stage, which Megatron on Ascend specifies."""
    of_stage = facts.integer("vpp_layers")
    if of_stage is None or "mesh.vpp" in facts.settings:
        return
    why = "mesh.vpp is the number of layers per pipeline stage divided by this, but the number of layers was not found"
    layers = facts.integer("layers")
    facts.leave("vpp_layers", why)
    if layers is None:
        facts.miss("mesh.vpp", "vpp_layers", why)
        return
    stages = facts.mesh_size("pp") * of_stage
    if layers % stages:
        facts.refuse("vpp_layers", f"must, multiplied by pp, {facts.mesh_size('pp')}, divide the number of layers, {layers}")
    facts.set("mesh.vpp", layers // stages, "vpp_layers layers", "layers / pp / this")


def _import_flexible_cp(facts: Facts) -> None:
    """Context parallelism that Megatron chooses for each micro-batch."""
    facts.set("mesh.cp", "flexible", "dynamic_cp", "each micro-batch has its own group")
    facts.settle("cp", "groups have the sizes that their micro-batches need")
    if facts.mesh_size("pp") > 1:
        facts.set_because("balance.strategy", "grid", "with mesh.cp: flexible the stages of a pipeline need it")
    else:
        why = "Megatron reduces gradients once a step; with experts over several ranks set micro-batch"
        facts.set_because("balance.meet", "step", why)


def _import_cp(facts: Facts, stated: list[str]) -> None:
    """Imports the number of ranks that share a sequence. Several keys may specify it, but not different sizes above 1."""
    sizes = {fact: facts.integer(fact) for fact in stated}
    cp = max((fact for fact in stated if facts.has(fact)), key=lambda fact: sizes[fact] or 0, default=stated[0])
    size = sizes[cp] or 1
    for other, there in sizes.items():
        if there is not None and there > 1 and there != size:
            facts.refuse(other, f"must be 1 or {size}, the size of context parallelism in {facts.facts[cp].path}")
        facts.settle(other, "")
    if sizes[cp] is not None:
        facts.set("mesh.cp", size, cp)
    if size == 1:
        facts.settle("cp_algo", "with cp 1, nothing is cut")
    elif cp != "cp":
        facts.set("pack.cp_layout", "contiguous", cp, "Ulysses: chunks in order")
    else:
        _import_cp_layout(facts)


def _import_cp_layout(facts: Facts) -> None:
    algorithm = facts.word("cp_algo")
    layout = {"megatron_cp_algo": "zigzag", "ulysses_cp_algo": "contiguous"}.get(algorithm or "")
    if layout is not None:
        facts.set("pack.cp_layout", layout, "cp_algo")
    elif algorithm is not None:
        why = "Evenkeel does not have this layout: set pack.cp_layout to zigzag or contiguous"
        facts.leave("cp_algo", why)
        facts.miss("pack.cp_layout", "cp_algo", why)


def import_batch(facts: Facts) -> None:
    if facts.table.batch == "prompts":
        _import_prompts(facts)
    elif facts.table.batch == "samples":
        facts.set("batch.global_batch", facts.integer("prompts"), "prompts")
        facts.want("batch.global_batch", ["prompts"], "no key says how many samples a step has")
    else:
        _import_rank_batches(facts)
    _import_order(facts)


_UPDATE = "rank_batch accumulation devices"


def _samples_of_update(facts: Facts) -> int | None:
    """Returns the samples of one update over all DP ranks in ROLL, or None if the file does not determine it."""
    rank_batch, devices = facts.integer("rank_batch"), facts.count("devices")
    accumulation = facts.integer("accumulation") if facts.has("accumulation") else 1
    if rank_batch is None or devices is None or accumulation is None:
        return None
    if any(facts.is_lost(fact) for fact in ("tp", "cp", "pp", "ulysses", "engine_ulysses")):
        return None
    of_model = facts.mesh_size("tp") * facts.mesh_size("cp") * facts.mesh_size("pp")
    if devices % of_model:
        facts.refuse("devices", f"{counted(devices, 'device')} cannot be divided evenly by {of_model}, the product of tp, cp and pp")
    return min(rank_batch * accumulation, LARGEST_COUNT) * (devices // of_model)


def _import_rank_batches(facts: Facts) -> None:
    """Imports the batches of SFT and DPO, in which a step is one update."""
    samples = _samples_of_update(facts)
    if samples is not None and samples > LARGEST_COUNT:
        facts.refuse("rank_batch", f"makes a step of more than {LARGEST_COUNT} samples")
    facts.set("batch.global_batch", samples, _UPDATE, "times the DP ranks")
    facts.leave(_UPDATE, "batch.global_batch needs settings that this file does not have")
    facts.want("batch.global_batch", _UPDATE.split(), "the keys do not specify how large an update is")


def _import_prompts(facts: Facts) -> None:
    prompts = facts.integer("prompts")
    responses = facts.integer("responses") if facts.has("responses") else 1
    samples = None if prompts is None or responses is None else prompts * responses
    if samples is not None and samples > LARGEST_COUNT:
        facts.refuse("prompts", f"makes a step of more than {LARGEST_COUNT} samples")
    facts.set("batch.global_batch", samples, "prompts responses")
    facts.leave("responses", "the step's number of prompts is not in this file: set batch.global_batch")
    _import_mini_batches(facts, prompts, samples)
    facts.want("batch.global_batch", ["prompts"], "no key says how many prompts a step has")
    facts.want("batch.mini_batches", ["mini", "rank_batch", "devices"], "the keys do not specify how large an update is")


def _import_mini_batches(facts: Facts, prompts: int | None, samples: int | None) -> None:
    whole, part, sources = prompts, facts.integer("mini"), "prompts mini"
    if whole is None or part is None:
        whole, part, sources = samples, _samples_of_update(facts), f"{_UPDATE} prompts responses"
    if whole is not None and part is not None:
        note = "it does not divide the step: mini-batches differ by one sample at most" if whole % part else ""
        facts.set("batch.mini_batches", -(-whole // part), sources, note)
    needs = "settings that this file does not have" if prompts is not None else "the size of a step, which this file does not specify"
    facts.leave(f"mini {_UPDATE}", f"batch.mini_batches needs {needs}")


def _import_order(facts: Facts) -> None:
    facts.set("batch.epochs", facts.integer("epochs"), "epochs")
    shuffle = facts.flag("shuffle")
    facts.set("batch.shuffle", shuffle, "shuffle")
    keeps_order = facts.flag("no_shuffle") if shuffle is None else None
    facts.set("batch.shuffle", None if keeps_order is None else not keeps_order, "no_shuffle")
    facts.set("batch.drop_last", facts.flag("drop_last"), "drop_last")
    facts.set("batch.seed", facts.integer("seed", 0), "seed")
    is_random = facts.flag("random_mini")
    note = "each rank's share is cut at random" if is_random else "mini-batches in source order, each balanced"
    facts.set("batch.keep_mini_batch", None if is_random is None else not is_random, "random_mini", note)


def import_balance(facts: Facts) -> None:
    balance = facts.flag("balance")
    if facts.has_flexible_cp():
        facts.settle("balance", "with mesh.cp: flexible it is always balanced")
    elif balance is not None:
        facts.set("balance.algorithm", "auto" if balance else "none", "balance")
    if facts.table.cost and (balance is not False or facts.has_flexible_cp()):
        facts.set_because("balance.cost", facts.table.cost, f"{facts.table.title} balances work, not tokens")
    trainer = trainer_of(facts)
    if trainer is not None and trainer.meet and "balance.meet" not in facts.settings:
        facts.set("balance.meet", trainer.meet, "trainer", "its ranks gather weights in every micro-batch")


def import_preset(facts: Facts) -> None:
    """Selects the foreign system's own partitioning."""
    table = facts.table
    if facts.has_flexible_cp():
        facts.refuse("dynamic_cp", "must be false with --preset, which requires the same cp for all micro-batches")
    facts.set_because("balance.preset", table.system, "--preset: its own partitions")
    if not table.balanced_by_default and "balance.algorithm" not in facts.settings:
        facts.set_because("balance.algorithm", "none", "--preset: it does not balance unless asked to")
    packs = any(it.value == "packed" for path, it in facts.settings.items() if path.endswith("micro_batch.mode"))
    if packs and table.align_lcm:
        facts.set_because("pack.align_lcm", table.align_lcm, "--preset: its packing aligns to it too")
