"""Tests of the conversion of verl's keys."""

from evenkeel import Config
from evenkeel.config_import.importer import import_config
from imports import imported, missing, note_of, outcome, outcomes, setting

fsdp = """
data:
  train_batch_size: 512
  shuffle: True
  seed: 7
actor_rollout_ref:
  model:
    use_remove_padding: True
  actor:
    strategy: fsdp
    ppo_mini_batch_size: 128
    ppo_micro_batch_size_per_gpu: null
    use_dynamic_bsz: True
    ppo_max_token_len_per_gpu: 16384
    loss_agg_mode: token-mean
    ulysses_sequence_parallel_size: 2
    ppo_epochs: 1
    shuffle: False
  ref:
    log_prob_use_dynamic_bsz: ${actor_rollout_ref.actor.use_dynamic_bsz}
    log_prob_max_token_len_per_gpu: ${oc.select:actor_rollout_ref.actor.ppo_max_token_len_per_gpu,16384}
    ulysses_sequence_parallel_size: ${actor_rollout_ref.actor.ulysses_sequence_parallel_size}
  rollout:
    name: vllm
    n: 5
    log_prob_use_dynamic_bsz: false
    log_prob_micro_batch_size_per_gpu: 8
trainer:
  balance_batch: True
  total_epochs: 15
  n_gpus_per_node: 8
"""


def test_a_trainer_on_fsdp_with_ulysses():
    config = imported(fsdp)
    assert config.system == "verl"
    actor = "actor_rollout_ref.actor."
    ref = "actor_rollout_ref.ref."
    rollout = "actor_rollout_ref.rollout."
    assert outcomes(config) == {
        "data.train_batch_size": "batch.global_batch: 2560, batch.mini_batches: 4",
        "data.shuffle": "batch.shuffle: true",
        "data.seed": "batch.seed: 7",
        "actor_rollout_ref.model.use_remove_padding": "-",
        actor + "strategy": "balance.meet: micro-batch, loss.micro_batches: sum, loss.dp_ranks: mean",
        actor + "ppo_mini_batch_size": "batch.mini_batches: 4",
        actor + "ppo_micro_batch_size_per_gpu": "-",
        actor + "use_dynamic_bsz": "micro_batch.mode: packed, profiles.update.micro_batch.mode: packed",
        actor + "ppo_max_token_len_per_gpu":
            "micro_batch.max_tokens: 32768, profiles.update.micro_batch.max_tokens: 32768",
        actor + "loss_agg_mode": "loss.aggregation: token-mean",
        actor + "ulysses_sequence_parallel_size": "mesh.cp: 2, pack.cp_layout: contiguous",
        actor + "ppo_epochs": "unused: the trainer repeats passes over a step: iterate over its micro-batches again",
        actor + "shuffle": "batch.keep_mini_batch: true",
        ref + "log_prob_use_dynamic_bsz": "profiles.ref_log_prob.micro_batch.mode: packed",
        ref + "log_prob_max_token_len_per_gpu": "profiles.ref_log_prob.micro_batch.max_tokens: 32768",
        ref + "ulysses_sequence_parallel_size": "-",
        rollout + "name": "unused: generation",
        rollout + "n": "batch.global_batch: 2560",
        rollout + "log_prob_use_dynamic_bsz": "profiles.log_prob.micro_batch.mode: fixed",
        rollout + "log_prob_micro_batch_size_per_gpu":
            "profiles.log_prob.micro_batch.mode: fixed, profiles.log_prob.micro_batch.size: 8",
        "trainer.balance_batch": "balance.algorithm: auto",
        "trainer.total_epochs": "batch.epochs: 15",
        "trainer.n_gpus_per_node": "unused: the launcher determines where ranks run",
    }
    assert setting(config, "balance.cost") == "flops-7b"


def test_the_cap_of_one_gpu_is_multiplied_by_those_that_share_a_sequence():
    assert "multiplied by 2" in note_of(imported(fsdp), "actor_rollout_ref.actor.ppo_max_token_len_per_gpu")


def test_a_trainer_on_megatron_cuts_in_zigzag_and_takes_means():
    config = imported("""
actor_rollout_ref:
  actor:
    strategy: megatron
    use_dynamic_bsz: true
    ppo_max_token_len_per_gpu: 8192
    loss_agg_mode: seq-mean-token-sum-norm
    loss_scale_factor: 4096
    megatron:
      tensor_model_parallel_size: 4
      context_parallel_size: 2
      pipeline_model_parallel_size: 2
      virtual_pipeline_model_parallel_size: null
      expert_model_parallel_size: 8
  ref:
    megatron: {tensor_model_parallel_size: 4, context_parallel_size: 1}
""")
    assert setting(config, "mesh.tp") == "4"
    assert setting(config, "mesh.cp") == "2"
    assert setting(config, "mesh.pp") == "2"
    assert setting(config, "mesh.vpp") == "(not set)"
    assert setting(config, "pack.cp_layout") == "(not set)", "zigzag is the default"
    assert setting(config, "micro_batch.max_tokens") == "16384"
    assert setting(config, "loss.micro_batches") == "mean"
    assert setting(config, "loss.aggregation") == "seq-mean-token-sum-norm"
    assert setting(config, "loss.norm_length") == "4096"
    assert outcome(config, "actor_rollout_ref.ref.megatron.tensor_model_parallel_size") == "-"
    assert "unused: one job has one value" in outcome(config, "actor_rollout_ref.ref.megatron.context_parallel_size")


def test_context_parallelism_that_megatron_chooses_is_flexible():
    actor = """
actor_rollout_ref:
  actor:
    strategy: megatron
    use_dynamic_bsz: true
    ppo_max_token_len_per_gpu: 16384
    megatron:
      dynamic_context_parallel: true
      max_seqlen_per_dp_cp_rank: 8192
      context_parallel_size: 2
      pipeline_model_parallel_size: """
    rest = "\n  rollout: {log_prob_use_dynamic_bsz: true, log_prob_max_token_len_per_gpu: 9}\n"
    config = imported(actor + "1" + rest + "trainer: {balance_batch: false}\n")
    assert setting(config, "mesh.cp") == "flexible"
    assert setting(config, "micro_batch.mode") == "packed"
    assert setting(config, "micro_batch.max_tokens_per_rank") == "8192"
    assert setting(config, "profiles.log_prob.micro_batch.max_tokens_per_rank") == "8192"
    assert setting(config, "micro_batch.max_tokens") == "(not set)"
    assert setting(config, "balance.algorithm") == "(not set)"
    assert setting(config, "balance.strategy") == "(not set)"
    assert setting(config, "balance.meet") == "step"
    assert setting(config, "balance.cost") == "flops-7b"
    assert "packed under max_tokens_per_rank" in outcome(config, "actor_rollout_ref.actor.ppo_max_token_len_per_gpu")
    assert Config.parse(config.yaml).settings()["mesh.cp"] == "flexible"
    assert setting(imported(actor + "2" + rest), "balance.strategy") == "grid"
    megatron = "{dynamic_context_parallel: false, context_parallel_size: 2}"
    fixed = imported(f"actor_rollout_ref: {{actor: {{strategy: megatron, megatron: {megatron}}}}}")
    assert setting(fixed, "mesh.cp") == "2"


def test_a_cp_of_each_micro_batch_is_never_taken_for_one_that_is_fixed():
    dynamic = "megatron: {dynamic_context_parallel: true, context_parallel_size: 2"
    def actor(keys):
        return imported("actor_rollout_ref: {actor: {ppo_mini_batch_size: 8, " + keys + "}}")
    of_any_trainer = actor(dynamic + ", max_seqlen_per_dp_cp_rank: 512}")
    assert setting(of_any_trainer, "mesh.cp") == "flexible"
    without_cap = actor("strategy: megatron, " + dynamic + "}")
    assert "actor_rollout_ref.actor.megatron.dynamic_context_parallel -> mesh.cp: 2" in missing(without_cap)
    on_fsdp = actor("strategy: fsdp, " + dynamic + ", max_seqlen_per_dp_cp_rank: 512}")
    key = "actor_rollout_ref.actor.megatron.dynamic_context_parallel"
    assert "only Megatron reads it" in outcome(on_fsdp, key)


def test_the_engine_may_hold_the_ulysses_size_too():
    config = imported("""
actor_rollout_ref:
  actor:
    ulysses_sequence_parallel_size: 1
    fsdp_config: {ulysses_sequence_parallel_size: 4}
""")
    assert setting(config, "mesh.cp") == "4"
    assert setting(config, "pack.cp_layout") == "contiguous"


def test_static_micro_batches_leave_the_cap_unused():
    config = imported("""
actor_rollout_ref:
  actor:
    use_dynamic_bsz: false
    ppo_max_token_len_per_gpu: 16384
    ppo_micro_batch_size_per_gpu: 4
    shuffle: true
trainer: {balance_batch: false}
""")
    assert setting(config, "micro_batch.mode") == "fixed"
    assert setting(config, "micro_batch.size") == "4"
    assert setting(config, "batch.keep_mini_batch") == "false"
    assert setting(config, "balance.algorithm") == "none"
    assert setting(config, "balance.cost") == "(not set)"
    assert outcome(config, "actor_rollout_ref.actor.ppo_max_token_len_per_gpu") == (
        "unused: has no effect when micro_batch.mode is fixed"
    )


def test_the_critic_has_profiles_and_must_share_the_mini_batches():
    config = imported("""
actor_rollout_ref: {actor: {ppo_mini_batch_size: 128, use_dynamic_bsz: true}}
critic:
  ppo_mini_batch_size: ${actor_rollout_ref.actor.ppo_mini_batch_size}
  use_dynamic_bsz: true
  ppo_max_token_len_per_gpu: 32768
  forward_max_token_len_per_gpu: ${critic.ppo_max_token_len_per_gpu}
""")
    assert outcome(config, "critic.ppo_mini_batch_size") == "-"
    assert setting(config, "profiles.critic_update.micro_batch.max_tokens") == "32768"
    assert setting(config, "profiles.critic_forward.micro_batch.max_tokens") == "32768"


def test_a_reference_to_another_file_is_named():
    config = imported("""
trainer: {balance_batch: true}
data: {train_batch_size: "${my.batch}"}
""")
    assert outcome(config, "data.train_batch_size") == "unused: refers to my.batch, which this file does not have"


def test_ulysses_may_be_set_by_its_older_and_its_newer_key():
    old, new = "ulysses_sequence_parallel_size", "fsdp_config.ulysses_sequence_parallel_size"
    for actor, ref in (({old: 4}, {old: 4}), ({new: 4}, {old: 4}), ({new: 4}, {new: 4}), ({old: 4}, {new: 4}),
                       ({old: 1, new: 4}, {old: 1, new: 4}), ({old: 4, new: 1}, {old: 4, new: 4}), ({old: 4, new: 4}, {old: 4, new: 1})):
        overrides = [f"++actor_rollout_ref.actor.{key}={size}" for key, size in actor.items()]
        overrides += [f"++actor_rollout_ref.ref.{key}={size}" for key, size in ref.items()]
        if old not in actor:
            overrides.append(f"~actor_rollout_ref.actor.{old}")
        if old not in ref:
            overrides.append(f"~actor_rollout_ref.ref.{old}")
        config = import_config(fsdp, "job.yaml", overrides=overrides)
        assert "cp: 4" in config.yaml
        assert not [it for it in config.missing if "mesh.cp" in " ".join(it.evenkeel)], (actor, ref)
    config = import_config(fsdp, "job.yaml", overrides=[f"++actor_rollout_ref.ref.{new}=8"])
    assert [it for it in config.missing if it.foreign == f"actor_rollout_ref.ref.{new}"][0].evenkeel == ["mesh.cp: 2"]
