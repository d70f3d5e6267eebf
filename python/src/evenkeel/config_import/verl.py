"""Tables of verl's keys."""

from __future__ import annotations

from evenkeel.config_import.facts import Facts
from evenkeel.config_import.tables import AXES, PAIRS, Implied, Key, Same, Stage, Table, Trainer, axes, outside

SIGNS = (
    "actor_rollout_ref trainer.balance_batch data.train_batch_size critic.use_dynamic_bsz critic.ppo_mini_batch_size "
    "data.micro_batch_size_per_gpu data.max_token_len_per_gpu"
).split()

_ACTOR = "actor_rollout_ref.actor."
_REF = "actor_rollout_ref.ref."
_ROLLOUT = "actor_rollout_ref.rollout."
_ULYSSES = "ulysses_sequence_parallel_size"

_LOGS = "the run, its logs and its checkpoints"
_LAUNCHER = "the launcher determines where ranks run"
_NOT_PADDED = "packed micro-batches are not padded to a few shapes"


def _keys_of_engine(section: str) -> list[Key]:
    """Returns the keys with mesh sizes in the section of Megatron's engine."""
    return [
        Key(section + "dynamic_context_parallel", "dynamic_cp"),
        Key(section + "max_seqlen_per_dp_cp_rank", "rank_cap"),
        *axes(section),
    ]


def _keys_of_pass(stage: str, section: str, dynamic: str, cap: str, size: str) -> list[Key]:
    """Returns the keys that define how one pass splits its samples into micro-batches."""
    return [
        Key(section + dynamic, f"{stage}.packed"),
        Key(section + cap, f"{stage}.gpu_cap", "counted after alignment, and it always holds"),
        Key(section + size, f"{stage}.global_size"),
        Key(f"{section}{size}_per_gpu", f"{stage}.size"),
    ]


def _keys_of_forward_pass(stage: str, section: str) -> list[Key]:
    return _keys_of_pass(stage, section + "log_prob_", "use_dynamic_bsz", "max_token_len_per_gpu", "micro_batch_size")


def _keys_of_critic_pass(stage: str, kind: str) -> list[Key]:
    return _keys_of_pass(stage, "critic.", "use_dynamic_bsz", f"{kind}_max_token_len_per_gpu", f"{kind}_micro_batch_size")


def _rl_keys() -> list[Key]:
    return [
        Key(_ACTOR + _ULYSSES, "ulysses"),
        Key(_ACTOR + "fsdp_config." + _ULYSSES, "engine_ulysses"),
        Key(_ACTOR + "strategy", "trainer"),
        Key("data.train_batch_size", "prompts", "counts prompts, so it is multiplied by rollout.n"),
        Key(_ROLLOUT + "n", "responses"),
        Key(_ACTOR + "ppo_mini_batch_size", "mini", "counts prompts, as train_batch_size does"),
        Key(_ACTOR + "shuffle", "random_mini"),
        Key("trainer.total_epochs", "epochs"),
        Key("trainer.nnodes", "nodes"),
        Key("trainer.n_gpus_per_node", "gpus"),
        Key("data.shuffle", "shuffle", "shuffles samples, not prompts"),
        Key(_ACTOR + "data_loader_seed", "seed"),
        Key("data.seed", "seed"),
        Key("trainer.balance_batch", "balance"),
        Key("actor_rollout_ref.model.use_remove_padding", "packing"),
        Key(_ACTOR + "loss_agg_mode", "loss"),
        Key(_ACTOR + "loss_scale_factor", "norm"),
        Key("data.max_response_length", "width"),
        Key(_ROLLOUT + "response_length", "width"),
        Key("critic.loss_agg_mode", "critic_update.loss"),
        Key("critic.loss_scale_factor", "critic_update.norm"),
        # These keys only determine which passes exist.
        Key(_ACTOR + "use_kl_loss", "kl_in_loss"),
        Key("algorithm.use_kl_in_reward", "kl_in_reward"),
        Key("algorithm.adv_estimator", "advantages"),
        Key("critic.enable", "critic"),
        *_keys_of_engine(_ACTOR + "megatron."),
        *_keys_of_pass("update", _ACTOR, "use_dynamic_bsz", "ppo_max_token_len_per_gpu", "ppo_micro_batch_size"),
        *_keys_of_forward_pass("log_prob", _ROLLOUT),
        *_keys_of_forward_pass("ref_log_prob", _REF),
        *_keys_of_critic_pass("critic_update", "ppo"),
        *_keys_of_critic_pass("critic_forward", "forward"),
    ]


def _rules_of_same_keys() -> list[Same]:
    rules = []
    for section in (_REF, "critic."):
        megatron = [(f"{section}megatron.{key}", f"{_ACTOR}megatron.{key}") for key in AXES]
        rules += [Same(path, like, "1", True) for path, like in megatron]
        for key in ("dynamic_context_parallel", "max_seqlen_per_dp_cp_rank"):
            rules.append(Same(f"{section}megatron.{key}", f"{_ACTOR}megatron.{key}", ""))
        paths = [section + place + _ULYSSES for place in ("", "fsdp_config.", "fsdp.", "model.fsdp_config.")]
        newer = (_ACTOR + "fsdp_config." + _ULYSSES,)
        for path in paths:
            others = tuple(other for other in paths if other != path)
            rules.append(Same(path, _ACTOR + _ULYSSES, "1", beside=others, like_beside=newer))
    for key in ("ppo_mini_batch_size", "shuffle", "data_loader_seed", "strategy"):
        rules.append(Same("critic." + key, _ACTOR + key, ""))
    rules += [Same(section + "rollout_n", _ROLLOUT + "n", "1") for section in (_ACTOR, _REF, "critic.")]
    rules.append(Same(_REF + "strategy", _ACTOR + "strategy", ""))
    rules.append(Same(_ACTOR + "use_remove_padding", "actor_rollout_ref.model.use_remove_padding", "false"))
    return rules


_COMMON_OUTSIDE = {
    "*.expert_model_parallel_size": "experts are spread over dp, without their own axis",
    "*.pad_to_length": _NOT_PADDED,
    "*.pad_to_length_bucket": _NOT_PADDED,
    "trainer.nnodes": _LAUNCHER,
    "trainer.n_gpus_per_node": _LAUNCHER,
    "trainer": _LOGS,
    "checkpoint": _LOGS,
    **outside("profiling", "global_profiler profiler *.profiler"),
    "transfer_queue": "how the trainer moves samples: Evenkeel's exchange takes its place",
    **outside("Ray", "ray_kwargs ray_init"),
    "hydra": "Hydra's own",
    "model_engine": "the name of the files its defaults list chooses",
}
_RL_OUTSIDE = {
    "*.ppo_epochs": "the trainer repeats passes over a step: iterate over its micro-batches again",
    _ACTOR + "use_prefix_grouper": "shared prompts are prefix.share: set it where your version has it",
    _ACTOR + "use_kl_loss": "the RL algorithm; it determines whether ref_log_prob runs",
    "algorithm.use_kl_in_reward": "the RL algorithm; it determines whether ref_log_prob runs",
    "critic.enable": "it determines whether the critic runs",
    "data.max_prompt_length": "real lengths decide, not a padded width",
    "data": "where prompts come from: set source to where the rollouts are",
    "actor_rollout_ref.rollout": "generation",
    "actor_rollout_ref": "the model and its training",
    "critic": "the critic model and its training",
    **outside("rewards", "reward_model reward_manager reward custom_reward_function sandbox_fusion"),
    "algorithm": "the RL algorithm",
    "distillation": "distillation, which this job may add",
    "skip": "rollouts that are read from a file",
    **_COMMON_OUTSIDE,
}
_FSDP = Trainer("sum", meet="micro-batch")
_TRAINERS = {"fsdp": _FSDP, "fsdp2": _FSDP, "megatron": Trainer("mean", True)}


def _why_no_reference(facts: Facts) -> str:
    """verl runs the reference model for a KL term, in the loss or in the rewards."""
    terms = [facts.flag("kl_in_loss"), facts.flag("kl_in_reward")]
    return "no KL term is asked for: the reference model does not run" if terms == [False, False] else ""


def _why_no_critic(facts: Facts) -> str:
    """verl runs the critic if configured to, and by default for GAE."""
    enable, advantages = facts.flag("critic"), facts.word("advantages")
    is_off = not enable if enable is not None else advantages not in (None, "gae")
    why = "critic.enable is false" if enable is not None else "advantages are not GAE"
    return f"{why}: the critic does not run" if is_off and not facts.is_lost("critic") else ""


def _rl() -> Table:
    harmless = (
        "actor_rollout_ref.model critic.model model reward reward_manager reward_model legacy_reward_impl transfer_queue "
        "distillation algorithm.rollout_correction optim profiler"
    ).split()
    for section in ("actor_rollout_ref.actor", "actor_rollout_ref.ref", "critic"):
        harmless += [section + ".optim", section + ".profiler"]
    modes = "token-mean token-sum seq-mean-token-sum seq-mean-token-mean seq-mean-token-sum-norm"
    return Table(
        system="verl",
        title="verl",
        keys=_rl_keys(),
        stages=[
            Stage("update", True),
            Stage("log_prob", True),
            Stage("ref_log_prob", False, _why_no_reference, _REF),
            Stage("critic_update", False, _why_no_critic, "critic."),
            Stage("critic_forward", False, _why_no_critic, "critic."),
        ],
        trainers=_TRAINERS,
        outside=_RL_OUTSIDE,
        same=_rules_of_same_keys(),
        harmless=harmless,
        loss_words={mode: mode for mode in modes.split()},
        cost="flops-7b",
        norm_note="the mean over samples is taken here as in newer versions of verl; older ones do not divide by their "
        "number",
    )


def _tuning() -> Table:
    """The part that verl's SFT and DPO trainers share: a step is one update."""
    keys = [
        Key("data.train_batch_size", "prompts"),
        Key("trainer.total_epochs", "epochs"),
        Key("trainer.nnodes", "nodes"),
        Key("trainer.n_gpus_per_node", "gpus"),
        Key("trainer.seed", "seed"),
        Key("data.seed", "seed"),
        Key("data.shuffle", "shuffle"),
        Key("trainer.balance_batch", "balance"),
        Key(_ULYSSES, "ulysses"),
        Key("engine." + _ULYSSES, "engine_ulysses"),
        Key("use_remove_padding", "packing"),
        Key("model.use_remove_padding", "packing"),
        Key("engine._target_", "trainer"),
        Key("engine.strategy", "trainer"),
        *_keys_of_engine("engine."),
        *_keys_of_pass("train", "data.", "use_dynamic_bsz", "max_token_len_per_gpu", "micro_batch_size"),
    ]
    model = outside("the model and its training", "model engine optim")
    return Table(
        system="verl",
        title="verl",
        keys=keys,
        stages=[Stage("train", True)],
        trainers={
            **_TRAINERS,
            "verl.workers.config.FSDPEngineConfig": _FSDP,
            "verl.workers.config.McoreEngineConfig": Trainer("mean", True),
        },
        outside={
            "data.max_length": "real lengths decide, not a padded width",
            "data": "where samples come from: set source",
            **model,
            **_COMMON_OUTSIDE,
        },
        not_marks=["actor_rollout_ref"],
        implied=[
            Implied("shuffle", "true", "verl's trainer always shuffles"),
            Implied("drop_last", "true", "verl's trainer leaves out an epoch's last, smaller batch"),
        ],
        harmless=["model", "optim", "profiler", "checkpoint"],
        batch="samples",
        cost="flops-7b",
    )


def _sft() -> Table:
    table = _tuning()
    table.marks = (
        "data.max_token_len_per_gpu data.micro_batch_size_per_gpu data.micro_batch_size model.partial_pretrain"
    ).split()
    table.implied.append(Implied("loss", "token-mean", "verl's SFT takes the mean over tokens"))
    # The older trainer, identified by its model.fsdp_config section, averages over micro-batches.
    table.implied.append(Implied("trainer", "sft on fsdp", "verl's older SFT trainer", "model.fsdp_config"))
    table.trainers["sft on fsdp"] = Trainer("mean", meet="micro-batch")
    table.loss_words = {"token-mean": "token-mean"}
    return table


def _dpo() -> Table:
    table = _tuning()
    table.marks = ["data.chosen_key", "data.rejected_key", "trainer.loss_type"]
    table.annotate(("data.train_batch_size",), PAIRS + ", as verl packs it")
    table.implied.append(Implied("loss", "pairs", "DPO takes the mean over pairs; a pair is one sample"))
    table.loss_words = {"pairs": "seq-mean-token-sum"}
    return table


def tables() -> list[Table]:
    return [_dpo(), _sft(), _rl()]
