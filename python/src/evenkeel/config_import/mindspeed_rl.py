"""Tables of MindSpeed-RL's keys."""

from __future__ import annotations

from evenkeel.config_import.facts import Facts
from evenkeel.config_import.tables import AXES, PAIRS, Always, Implied, Key, Same, Stage, Table, Trainer, axes, outside

SIGNS = "rl_config megatron_training actor_config generate_config ref_config sft".split()

_CAP = "counted after alignment, and it always holds"
_OPTIONAL = "always holds; there it only raised the number of micro-batches"
_PROMPTS = "counts prompts, so it is multiplied by n_samples_per_prompt"
_MODEL = "the model and its training"


def _keys_of_grid(section: str) -> list[Key]:
    return [
        *axes(section + "."),
        Key(f"{section}.context_parallel_algo", "cp_algo"),
        Key(f"{section}.num_layers_per_virtual_pipeline_stage", "vpp_layers"),
        Key(f"{section}.num_layers", "layers"),
    ]


def _key_of_layers(section: str) -> Key:
    """Returns the key with the layers of a section's model: "model: NAME" in the section refers to model.NAME."""
    return Key(f"model.{{{section}.model}}.num_layers", "layers")


def _rl_keys() -> list[Key]:
    keys = [
        _key_of_layers("megatron_training"),
        _key_of_layers("actor_config"),
        *_keys_of_grid("megatron_training"),
        *_keys_of_grid("actor_config"),
        Key("megatron_training.global_batch_size", "prompts", _PROMPTS),
        Key("actor_config.global_batch_size", "prompts", _PROMPTS),
        Key("rl_config.n_samples_per_prompt", "responses"),
        Key("rl_config.mini_batch_size", "mini", "counts prompts, as global_batch_size does"),
        Key("megatron_training.seed", "seed"),
        Key("megatron_training.no_shuffle", "no_shuffle", "shuffles samples, not prompts"),
        Key("rl_config.use_dp_batch_balance", "balance"),
        Key("rl_config.token_level_loss", "loss", "their own rule is loss.aggregation: mindspeed-rl"),
        Key("megatron_training.stage", "stage"),
        Key("rl_config.use_remove_padding", "packing"),
        Key("rl_config.use_dynamic_bsz", "update.packed actor.packed ref.packed critic.packed"),
        Key("rl_config.max_packing_token_size", "update.cap actor.cap ref.cap", _CAP),
        Key("rl_config.dynamic_max_batch_size", "update.max_samples actor.max_samples ref.max_samples", _OPTIONAL),
        Key("megatron_training.micro_batch_size", "update.size actor.size ref.size"),
        Key("actor_config.micro_batch_size", "update.size actor.size"),
        Key("ref_config.micro_batch_size", "ref.size"),
        Key("critic_config.micro_batch_size", "critic.size"),
        Key("rl_config.update_micro_batch_size", "update.size"),
        Key("rl_config.shuffle_mini_batch", "update.shuffle"),
    ]
    for stage in ("ref", "actor", "update"):
        keys.append(Key(f"rl_config.{stage}_max_packing_token_size", f"{stage}.cap", _CAP))
        keys.append(Key(f"rl_config.{stage}_dynamic_max_batch_size", f"{stage}.max_samples", _OPTIONAL))
        if stage != "update":
            keys.append(Key(f"rl_config.{stage}_forward_micro_batch_size", f"{stage}.size"))
    return keys


def _with_rl_section(keys: str) -> str:
    return " ".join("rl_config." + key for key in keys.split())


_OUTSIDE = {
    "*.expert_model_parallel_size": "experts are spread over dp, without their own axis",
    "*.sequence_parallel": "the alignment always allows for it",
    "*.seq_length": "real lengths decide, not a padded width",
    "megatron_training.stage": "it determines which passes there are",
    "rl_config.epochs": "the trainer repeats passes over a step: iterate over its micro-batches again",
    "generate_config": "generation",
    **outside(_MODEL, "megatron_training actor_config ref_config"),
    "reward_config": "the reward model",
    "critic_config": "the critic model and its training",
    "model": _MODEL,
    "rl_config.integrated_mode_config": "where the workers run",
    **outside(
        "the RL algorithm",
        _with_rl_section(
            "gamma lam adv_estimator kl_penalty kl_ctrl_type init_kl_coef kl_horizon kl_target clip_ratio clip_ratio_low "
            "clip_ratio_high clip_higher_enable cliprange_value entropy_coeff advantage_whiten beta use_kl_in_reward "
            "max_prompt_length filter_groups_enable overlong_buffer_enable overlong_buffer"
        ),
    ),
    **outside(
        "rewards", _with_rl_section("rule_reward verifier_function verifier_weight verifier_parallel verifier_timeout")
    ),
    **outside(
        "where the workers run and how they communicate",
        _with_rl_section(
            "actor_resource reference_resource reward_resource critic_resource vit_resource use_integrated_worker "
            "blocking async_engine guarantee_order zmq_communication runtime_env_path num_cpus_for_local_task "
            "num_cpus_for_placement_group"
        ),
    ),
    **outside(
        "samples a worker fetches at once: Evenkeel exchanges whole steps",
        _with_rl_section(
            "actor_rollout_dispatch_size actor_logprob_dispatch_size ref_dispatch_size reward_dispatch_size "
            "adv_dispatch_size actor_update_dispatch_size kl_dispatch_size"
        ),
    ),
    **outside(
        "logging",
        _with_rl_section("use_tensorboard use_wandb wandb_project wandb_exp_name wandb_save_dir log_max_throughput"),
    ),
}


def _common_table(keys: list[Key], stages: list[Stage], section: str = "megatron_training") -> Table:
    return Table(
        system="mindspeed-rl",
        title="MindSpeed-RL",
        keys=keys,
        stages=stages,
        trainers={"megatron": Trainer("mean", True)},
        outside=dict(_OUTSIDE),
        always=[
            Always(f"{section}.variable_seq_lengths", "true", "lengths always vary"),
            Always(f"{section}.no_pad_to_seq_lengths", "true", "nothing is padded to a fixed length"),
            Always(f"{section}.reset_position_ids", "true", "positions start at 0 in every sequence"),
            Always(f"{section}.reset_attention_mask", "true", "cu_seqlens keep sequences apart"),
        ],
        implied=[
            Implied("cp_algo", "ulysses_cp_algo", "MindSpeed-RL's default"),
            Implied("trainer", "megatron", "MindSpeed-RL trains with Megatron"),
        ],
        harmless=["model"],
        balanced_by_default=False,
    )


def _why_no_reference(facts: Facts) -> str:
    is_dapo = facts.word("stage") == "ray_dapo"
    return "DAPO has no KL term: the reference model does not run" if is_dapo else ""


def _why_no_critic(facts: Facts) -> str:
    stage = facts.word("stage")
    is_off = stage != "ray_ppo" if stage is not None else not facts.has("critic.size")
    return "only PPO has a critic" if is_off else ""


def _rl() -> Table:
    table = _common_table(
        _rl_keys(),
        [
            Stage("update", True),
            Stage("actor", True),
            Stage("ref", True, _why_no_reference, "ref_config."),
            Stage("critic", False, _why_no_critic, "critic_config."),
        ],
    )
    table.same = [
        Same(f"{section}.{key}", f"actor_config.{key}", "1")
        for section in ("ref_config", "reward_config", "critic_config")
        for key in AXES
    ]
    table.loss_words = {"true": "token-mean", "false": "seq-mean-token-mean"}
    return table


def _token_mean(stage: str) -> Table:
    """GRPO and PPO take the mean over the tokens of each micro-batch; for DAPO it is configurable."""
    table = _rl()
    table.marks = [f"megatron_training.stage={stage}"]
    key_path = "rl_config.token_level_loss"
    table.keys = [key._replace(facts="loss_of_dapo") if key.path == key_path else key for key in table.keys]
    table.outside[key_path] = "only DAPO reads it"
    table.implied.append(Implied("loss", "true", "GRPO and PPO average over tokens"))
    return table


def _tuning(section: str) -> Table:
    """SFT and DPO use one section, like Megatron's own arguments."""
    keys = [
        _key_of_layers(section),
        *_keys_of_grid(section),
        Key(f"{section}.global_batch_size", "prompts"),
        Key(f"{section}.micro_batch_size", "train.size"),
        Key(f"{section}.seed", "seed"),
        Key(f"{section}.no_shuffle", "no_shuffle"),
    ]
    table = _common_table(keys, [Stage("train", True)], section)
    table.outside.setdefault(section, _MODEL)
    table.batch = "samples"
    return table


def _sft() -> Table:
    table = _tuning("sft")
    table.marks = ["sft"]
    table.not_marks = ["rl_config"]
    table.implied.append(Implied("loss", "tokens", "SFT averages over tokens"))
    table.loss_words = {"tokens": "token-mean"}
    return table


def _dpo() -> Table:
    table = _tuning("megatron_training")
    table.marks = ["megatron_training.is_pairwise_dataset", "megatron_training.dpo_loss_type"]
    table.not_marks = ["rl_config"]
    table.annotate(("batch_size",), PAIRS)
    table.implied.append(Implied("loss", "pairs", "DPO takes the mean over pairs; a pair is one sample"))
    table.loss_words = {"pairs": "seq-mean-token-sum"}
    return table


def tables() -> list[Table]:
    return [_sft(), _dpo(), _token_mean("ray_grpo"), _token_mean("ray_ppo"), _rl()]
