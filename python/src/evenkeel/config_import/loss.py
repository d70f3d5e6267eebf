"""Imports the aggregation of losses."""

from __future__ import annotations

from evenkeel.config_import.facts import Facts
from evenkeel.config_import.job import trainer_of

_NORM = "seq-mean-token-sum-norm"
_NO_MODE = "loss.aggregation has no such mode: give the trainer the omega of the most similar one"


def import_loss(facts: Facts) -> None:
    """Imports the losses. Call it after import_stages(), because some losses depend on micro_batch.mode."""
    table = facts.table
    _import_aggregation(facts, "loss.", "loss")
    facts.want("loss.aggregation", ["loss"], "no key says how losses are summed up")
    mode = facts.value_of("loss.aggregation") or ""
    if mode == _NORM:
        _import_norm_length(facts, "loss.", "norm")
    elif mode.startswith("seq-mean-token-") and table.fully_masked:
        facts.set_because("loss.fully_masked", table.fully_masked, f"{table.title} counts samples that have loss tokens")
    _import_trainer(facts)
    for stage in table.stages[1:]:
        if any(path.startswith(f"profiles.{stage.name}.") for path in facts.settings):
            _import_loss_of_stage(facts, stage.name)
    facts.leave("norm", "only seq-mean-token-sum-norm divides by it")
    facts.leave("width prompt_width sequence_width", "real lengths decide, not a padded width")


def _import_aggregation(facts: Facts, section: str, fact: str) -> None:
    word = facts.word(fact)
    if word is None:
        return
    mode = facts.table.loss_words.get(word)
    facts.set(section + "aggregation", mode, fact, "over the whole step, no matter how it is split")
    if mode is None:
        facts.leave(fact, _NO_MODE)
        facts.miss(section + "aggregation", fact, _NO_MODE)


def _padded_width(facts: Facts) -> tuple[int | None, str]:
    """Returns the divisor of padded responses if no key states it, and the facts it follows from. verl pads only responses.
    ROLL's mask covers the whole sequence except the token that nothing predicts."""
    if facts.table.system != "roll":
        return facts.integer("width"), "width"
    sequence = facts.integer("sequence_width")
    if sequence is not None:
        return sequence - 1, "sequence_width"
    prompt, response = facts.integer("prompt_width"), facts.integer("width")
    if prompt is None or response is None or facts.is_lost("sequence_width"):
        return None, ""
    return prompt + response - 1, "prompt_width width"


def _import_norm_length(facts: Facts, section: str, norm: str) -> None:
    table = facts.table
    path = section + "norm_length"
    if facts.has(norm):
        facts.set(path, facts.integer(norm), norm, table.norm_note)
        return
    if table.system == "roll" and facts.value_of("micro_batch.mode") == "padded":
        why = "with dynamic batching ROLL divides by the width of each micro-batch, which is not a fixed number"
        facts.miss(path, "loss", why)
        return
    width, sources = _padded_width(facts)
    if width:
        facts.set(path, width, sources, f"{_NORM} divides by this width there; {table.norm_note}")
        return
    facts.want(path, [norm, "width", "prompt_width", "sequence_width"], f"no key says what {_NORM} divides by")


def _import_trainer(facts: Facts) -> None:
    trainer = trainer_of(facts)
    if trainer is not None:
        facts.set("loss.micro_batches", trainer.micro_batches, "trainer", "how this trainer reduces its losses")
        facts.set("loss.dp_ranks", "mean", "trainer")
    elif facts.has("trainer") and not facts.is_lost("trainer"):
        facts.leave("trainer", "set loss.micro_batches and loss.dp_ranks to how this trainer reduces its losses")
        why = "this trainer is not known, so its mesh and how it reduces losses are not known either"
        for path in ("loss.micro_batches", "loss.dp_ranks", "mesh.tp", "mesh.cp", "mesh.pp"):
            facts.miss(path, "trainer", why)
    for path in ("loss.micro_batches", "loss.dp_ranks"):
        facts.want(path, ["trainer"], "no key names the trainer")


def _import_loss_of_stage(facts: Facts, stage: str) -> None:
    """Imports the critic's loss if it differs from the actor's."""
    fact, norm, section = f"{stage}.loss", f"{stage}.norm", f"profiles.{stage}.loss."
    word = facts.word(fact)
    mode = facts.table.loss_words.get(word) if word is not None else None
    if mode is not None and facts.value_of("loss.aggregation") == mode:
        facts.settle(fact, "as the actor's")
    else:
        _import_aggregation(facts, section, fact)
    if mode != _NORM:
        return
    own, of_actor = facts.integer(norm), facts.value_of("loss.norm_length")
    if own is not None and of_actor == str(own):
        facts.settle(norm, "as the actor's")
    elif own is not None or of_actor is None:
        _import_norm_length(facts, section, norm)
