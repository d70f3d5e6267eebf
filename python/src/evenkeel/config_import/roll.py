"""Tables of ROLL's keys."""

from __future__ import annotations

from evenkeel.config_import.tables import AXES, PAIRS, Implied, Key, Same, Stage, Table, Trainer, axes, outside

SIGNS = (
    "actor_train actor_infer reference rollout_batch_size rewards sft_train student_train student "
    "num_return_sequences_in_group"
).split()

_MODEL = "the model and its training"
_OUTSIDE = {
    "*.expert_model_parallel_size": "experts are spread over dp, without their own axis",
    "ppo_epochs": "the trainer repeats passes over a step: iterate over its micro-batches again",
    "train_batch_size": "ROLL makes its batches from per_device_train_batch_size, accumulation and DP ranks",
    **outside("generation", "actor_infer student_infer"),
    "rewards": "rewards",
    **outside("validation", "validation val_batch_size"),
    "*.apply_loss_scale": "Evenkeel provides omega and the scale of each micro-batch: see loss.micro_batches",
    "*.system_envs": "the environment of the trainer's processes",
    **outside(_MODEL, "*.model_args *.training_args *.strategy_args"),
    "*.data_args": "where prompts come from: set source to where the rollouts are",
    **outside("the launcher determines where ranks run", "*.device_mapping num_gpus_per_node num_nodes"),
    "hydra": "Hydra's own",
    **outside(
        "DeepSpeed's settings: " + _MODEL, "deepspeed_zero deepspeed_zero2 deepspeed_zero3 deepspeed_zero3_cpuoffload"
    ),
    **outside(
        "the RL algorithm",
        "adv_estimator gamma lambd pg_clip pg_clip_low pg_clip_high value_clip dual_clip_loss reward_clip advantage_clip "
        "whiten_advantages use_kl_loss kl_loss_coef init_kl_coef entropy_loss_coef add_token_level_kl norm_mean_type "
        "norm_std_type rl_loss_coef ipo beta label_smoothing",
    ),
    **outside(
        "the run, its logs and its checkpoints",
        "exp_name logging_dir output_dir track_with tracker_kwargs checkpoint_config max_steps save_steps logging_steps "
        "eval_steps resume_from_checkpoint pretrain reward_pretrain rpc_timeout",
    ),
    **outside(
        "the environments: rollout_batch_size counts their trajectories",
        "train_env_manager val_env_manager custom_envs reward_normalization env_manager_cls",
    ),
}


def _common_table(actor: str) -> Table:
    """Returns the part that all of ROLL's tables share. The trained model determines the mesh and the batches."""
    return Table(
        system="roll",
        title="ROLL",
        keys=[
            Key(f"{actor}.model_args.ulysses_size", "ulysses"),
            Key(f"{actor}.strategy_args.strategy_name", "trainer"),
            Key(f"{actor}.training_args.per_device_train_batch_size", "rank_batch"),
            Key(f"{actor}.training_args.gradient_accumulation_steps", "accumulation"),
            Key(f"{actor}.device_mapping", "devices"),
            *axes(f"{actor}.strategy_args.strategy_config."),
            Key("seed", "seed"),
        ],
        stages=[],
        trainers={
            "megatron_train": Trainer("mean", True),
            "deepspeed_train": Trainer("mean"),
            "fsdp2_train": Trainer("mean", meet="micro-batch"),
        },
        outside=dict(_OUTSIDE),
        harmless=(
            "deepspeed_zero deepspeed_zero2 deepspeed_zero3 deepspeed_zero3_cpuoffload envs traj_envs step_envs"
        ).split(),
        cost="flops-7b",
        align_lcm="16",
        packing_algorithm="none",
    )


def _keys_of_pass(section: str, stage: str, trains: bool) -> list[Key]:
    """Returns the settings for which each pass of a model has its own key."""
    padded, packed = ("_in_train", "_train") if trains else ("_in_infer", "_forward")
    packing = f"{section}.sequence_packing_args."
    size = ".training_args.per_device_train_batch_size" if trains else ".infer_batch_size"
    cap_note = "counted after alignment, and it always holds"
    return [
        Key(f"{section}.use_dynamic_batching{padded}", f"{stage}.padded"),
        Key(f"{section}.max_tokens_per_microbatch{padded}", f"{stage}.padded_cap"),
        Key(f"{section}.sequence_length_round{padded}", f"{stage}.length_round"),
        Key(f"{packing}max_packed_sequence_length{packed}", f"{stage}.cap", cap_note),
        Key(f"{packing}min_num_micro_batches{packed}", f"{stage}.min_count"),
        Key(section + size, f"{stage}.size"),
    ]


def _add_workers(table: Table, section: str, train: str, forward: str, is_required: bool = False) -> None:
    """Adds a section of one model's workers, and the profiles of its training and its forward passes; an empty name means
    that the model has no such pass."""
    stages = [(stage, trains) for stage, trains in ((train, True), (forward, False)) if stage]
    for stage, trains in stages:
        table.keys += _keys_of_pass(section, stage, trains)
        table.stages.append(Stage(stage, is_required))
        table.implied.append(Implied(f"{stage}.length_round", "4", "ROLL's default", section + "."))
        if not trains:
            table.implied.append(Implied(f"{stage}.size", "16", "ROLL's default", section + "."))
    for key, fact in (("use_sequence_packing", "packed"), ("sequence_packing_args.algorithm", "algorithm")):
        table.keys.append(Key(f"{section}.{key}", " ".join(f"{stage}.{fact}" for stage, _ in stages)))


def _rules_of_same_keys(actor: str, *others: str) -> list[Same]:
    rules = []
    for section in others:
        for key in AXES:
            path = ".strategy_args.strategy_config." + key
            rules.append(Same(section + path, actor + path, "1", True))
        rules.append(Same(section + ".model_args.ulysses_size", actor + ".model_args.ulysses_size", "1"))
    return rules


def _rl(actor: str = "actor_train", infer: str = "actor_infer", reference: str = "reference") -> Table:
    """RLVR and agentic jobs; distillation on its own rollouts uses other names for the same sections."""
    table = _common_table(actor)
    _add_workers(table, actor, "train", "forward", True)
    _add_workers(table, reference, "", "reference")
    _add_workers(table, "critic", "critic_train", "critic_forward")
    table.keys += [
        Key("rollout_batch_size", "prompts", "counts prompts, so it is multiplied by num_return_sequences_in_group"),
        Key(f"{infer}.generating_args.num_return_sequences", "responses"),
        Key("num_return_sequences_in_group", "responses"),
        Key("loss_agg_mode", "loss"),
        Key("response_length", "width"),
        Key("prompt_length", "prompt_width"),
        Key("sequence_length", "sequence_width"),
    ]
    table.same = _rules_of_same_keys(actor, reference, "critic")
    table.implied.append(Implied("loss", "seq-mean-token-mean", "ROLL's default"))
    modes = "token-mean seq-mean-token-sum seq-mean-token-mean seq-mean-token-sum-norm"
    table.loss_words = {mode: mode for mode in modes.split()}
    table.fully_masked = "skip"
    table.norm_note = (
        "ROLL does not divide by the number of samples: its loss is this one times the samples of a mini-batch"
    )
    return table


def _agentic() -> Table:
    """Agentic jobs count trajectories instead of prompts."""
    table = _rl()
    table.marks = ["train_env_manager", "custom_envs"]
    table.keys = [key for key in table.keys if key.facts != "responses"]
    table.annotate(("rollout_batch_size",), "counts trajectories")
    return table


def _distill_rl() -> Table:
    table = _rl("student_train", "student_infer", "teacher")
    table.marks = ["student_train"]
    return table


def _tuning(section: str) -> Table:
    """SFT, DPO and distillation on a fixed dataset: a step is one update."""
    table = _common_table(section)
    _add_workers(table, section, "train", "", True)
    table.keys.append(Key(f"{section}.training_args.num_train_epochs", "epochs"))
    table.outside.update(outside("real lengths decide, not a padded width", "sequence_length prompt_length"))
    table.outside["*.infer_batch_size"] = "validation"
    table.implied.append(Implied("drop_last", "true", "ROLL's pipeline leaves out an epoch's last, smaller batch"))
    table.batch = "rank_batches"
    return table


def _sft() -> Table:
    table = _tuning("sft_train")
    table.marks = ["sft_train"]
    table.implied.append(Implied("shuffle", "false", "ROLL's SFT keeps the order of its file"))
    table.implied.append(Implied("loss", "token-mean", "ROLL's SFT takes the mean over tokens"))
    table.loss_words = {"token-mean": "token-mean"}
    return table


def _dpo() -> Table:
    table = _tuning("actor_train")
    _add_workers(table, "reference", "", "reference")
    table.marks = ["chosen_key", "rejected_key", "ipo"]
    table.same = _rules_of_same_keys("actor_train", "reference")
    table.annotate(("per_device_train_batch_size", "infer_batch_size"), PAIRS)
    table.implied.append(Implied("shuffle", "true", "ROLL's DPO always shuffles"))
    table.implied.append(Implied("loss", "pairs", "DPO takes the mean over pairs; a pair is one sample"))
    table.loss_words = {"pairs": "seq-mean-token-sum"}
    return table


def _distill() -> Table:
    """Its loss is a mixture of two means over each micro-batch, which Evenkeel does not support."""
    table = _tuning("student")
    _add_workers(table, "teacher", "", "teacher")
    # The teacher only runs forward, but its batch size is that of its training_args.
    table.keys = [key for key in table.keys if key.path != "teacher.infer_batch_size"]
    table.implied = [it for it in table.implied if it.fact != "teacher.size"]
    table.keys.append(Key("teacher.training_args.per_device_train_batch_size", "teacher.size"))
    table.keys.append(Key("distill_loss_weight", "loss"))
    table.marks = ["student", "teacher"]
    table.not_marks = ["student_train"]
    table.same = _rules_of_same_keys("student", "teacher")
    table.implied.append(Implied("shuffle", "true", "ROLL's distillation always shuffles"))
    return table


def tables() -> list[Table]:
    return [_sft(), _dpo(), _distill(), _distill_rl(), _agentic(), _rl()]
