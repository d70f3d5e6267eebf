"""Tests of the conversion of MindSpeed-RL's keys."""

from evenkeel import Config
from imports import imported, missing, note_of, outcome, outcomes, setting

dynamic_batch_size = """
rl_config:
  use_dynamic_bsz: true
  ref_max_packing_token_size: 8192
  ref_dynamic_max_batch_size: 8
  actor_max_packing_token_size: 8192
  actor_dynamic_max_batch_size: 8
  update_max_packing_token_size: 8192
  update_dynamic_max_batch_size: 8
"""


def test_remove_padding_becomes_the_packed_layout():
    config = imported("""
megatron_training:
  variable_seq_lengths: true
  reset_position_ids: true
rl_config:
  use_remove_padding: true
""")
    assert config.system == "mindspeed-rl"
    assert outcomes(config) == {
        "megatron_training.variable_seq_lengths": "-",
        "megatron_training.reset_position_ids": "-",
        "rl_config.use_remove_padding": "micro_batch.mode: packed",
    }
    assert config.yaml == """\
# Imported from a MindSpeed-RL configuration, which does not specify where samples come from. Set it:
# source: {kind: jsonl, path: rollouts.jsonl}
micro_batch:
  mode: packed         # rl_config.use_remove_padding
loss:
  micro_batches: mean  # MindSpeed-RL trains with Megatron
  dp_ranks: mean       # MindSpeed-RL trains with Megatron
"""


def test_dynamic_batch_size_becomes_a_profile_a_stage():
    config = imported(dynamic_batch_size)
    assert outcomes(config) == {
        "rl_config.use_dynamic_bsz": "micro_batch.mode: packed, profiles.update.micro_batch.mode: packed, "
        "profiles.actor.micro_batch.mode: packed, profiles.ref.micro_batch.mode: packed",
        "rl_config.ref_max_packing_token_size": "profiles.ref.micro_batch.max_tokens: 8192",
        "rl_config.ref_dynamic_max_batch_size": "profiles.ref.micro_batch.max_samples: 8",
        "rl_config.actor_max_packing_token_size": "profiles.actor.micro_batch.max_tokens: 8192",
        "rl_config.actor_dynamic_max_batch_size": "profiles.actor.micro_batch.max_samples: 8",
        "rl_config.update_max_packing_token_size":
            "micro_batch.max_tokens: 8192, profiles.update.micro_batch.max_tokens: 8192",
        "rl_config.update_dynamic_max_batch_size":
            "micro_batch.max_samples: 8, profiles.update.micro_batch.max_samples: 8",
    }


def test_a_stage_without_the_optional_limit_does_not_take_that_of_another():
    config = imported("""
rl_config:
  use_dynamic_bsz: true
  update_max_packing_token_size: 8192
  update_dynamic_max_batch_size: 8
  ref_max_packing_token_size: 16384
""")
    assert setting(config, "micro_batch.max_samples") == "8"
    assert setting(config, "profiles.ref.micro_batch.max_tokens") == "16384"
    assert setting(config, "profiles.ref.micro_batch.max_samples") == "null"


def test_the_profiles_have_the_names_of_the_stages():
    config = imported("""
actor_config: {context_parallel_size: 2, context_parallel_algo: megatron_cp_algo, micro_batch_size: 4}
rl_config: {use_dynamic_bsz: true, update_max_packing_token_size: 4096, ref_max_packing_token_size: 16384}
""")
    settings = Config.parse(config.yaml).settings()
    assert settings["mesh.cp"] == 2
    assert settings["micro_batch.max_tokens"] == settings["profiles.update.micro_batch.max_tokens"] == 4096
    assert settings["profiles.ref.micro_batch.max_tokens"] == 16384
    assert settings["profiles.ref.loss.micro_batches"] == "mean"


def test_a_stage_without_a_cap_is_reported_and_does_not_use_that_of_another():
    config = imported("""
actor_config: {micro_batch_size: 2}
rl_config: {use_dynamic_bsz: true, update_max_packing_token_size: 4096}
""")
    assert setting(config, "profiles.update.micro_batch.max_tokens") == "4096"
    assert setting(config, "profiles.ref.micro_batch.max_tokens") == "8192"
    assert "rl_config.max_packing_token_size -> profiles.ref.micro_batch.max_tokens: 8192" in missing(config)
    assert "# not found: Evenkeel's default" in config.yaml


def test_dp_batch_balance_is_balanced_or_left_in_source_order():
    key = "rl_config.use_dp_batch_balance"
    assert outcomes(imported("rl_config:\n  use_dp_batch_balance: true\n")) == {
        key: "balance.algorithm: auto",
    }
    assert outcomes(imported("rl_config:\n  use_dp_batch_balance: false\n")) == {
        key: "balance.algorithm: none",
    }


def test_one_packing_size_is_that_of_all_stages_that_have_none_of_their_own():
    config = imported("""
rl_config:
  use_dynamic_bsz: true
  max_packing_token_size: 4096
  dynamic_max_batch_size: 4
  ref_max_packing_token_size: 12288
""")
    assert setting(config, "micro_batch.max_tokens") == "4096"
    assert setting(config, "profiles.actor.micro_batch.max_tokens") == "4096"
    assert setting(config, "profiles.ref.micro_batch.max_tokens") == "12288"
    assert setting(config, "profiles.ref.micro_batch.max_samples") == "4"


def test_the_plain_split_becomes_fixed_micro_batches():
    config = imported("""
actor_config:
  micro_batch_size: 2
ref_config:
  micro_batch_size: 4
rl_config:
  use_remove_padding: true
  use_dynamic_bsz: false
  max_packing_token_size: 8192
  shuffle_mini_batch: true
  actor_forward_micro_batch_size: 16
""")
    assert setting(config, "micro_batch.mode") == "fixed"
    assert setting(config, "micro_batch.size") == "2"
    assert setting(config, "micro_batch.max_tokens") == "2147483647", "the plain split has no cap"
    assert setting(config, "micro_batch.shuffle") == "true"
    assert setting(config, "profiles.actor.micro_batch.size") == "16"
    assert setting(config, "profiles.actor.micro_batch.shuffle") == "false"
    assert setting(config, "profiles.ref.micro_batch.size") == "4"
    assert outcome(config, "rl_config.use_remove_padding") == "-"
    assert outcome(config, "rl_config.max_packing_token_size") == "unused: has no effect when micro_batch.mode is fixed"


def test_packed_micro_batches_are_not_shuffled():
    shuffled = imported(dynamic_batch_size + "  shuffle_mini_batch: true\n")
    assert outcome(shuffled, "rl_config.shuffle_mini_batch") == "unused: has no effect when micro_batch.mode is packed"
    kept = imported(dynamic_batch_size + "  shuffle_mini_batch: false\n")
    assert setting(kept, "micro_batch.shuffle") == "false"


def test_context_parallelism_is_contiguous_unless_it_is_a_ring():
    sizes = "actor_config:\n  tensor_model_parallel_size: 4\n  context_parallel_size: 2\n"
    ulysses = imported(sizes)
    assert setting(ulysses, "mesh.tp") == "4"
    assert setting(ulysses, "mesh.cp") == "2"
    assert setting(ulysses, "pack.cp_layout") == "contiguous"
    ring = imported(sizes + "  context_parallel_algo: megatron_cp_algo\n")
    assert setting(ring, "pack.cp_layout") == "zigzag"
    hybrid = imported(sizes + "  context_parallel_algo: hybrid_cp_algo\n")
    assert setting(hybrid, "pack.cp_layout") == "(not set)"
    assert "unused: Evenkeel does not have this layout" in outcome(hybrid, "actor_config.context_parallel_algo")


def test_a_mesh_of_another_model_is_named_when_it_differs():
    config = imported("""
actor_config: {tensor_model_parallel_size: 4, pipeline_model_parallel_size: 2}
ref_config: {tensor_model_parallel_size: 4, pipeline_model_parallel_size: 4}
""")
    assert outcome(config, "ref_config.tensor_model_parallel_size") == "-"
    assert outcome(config, "ref_config.pipeline_model_parallel_size") == (
        "unused: one job has one value, that of actor_config.pipeline_model_parallel_size"
    )


def test_batches_count_samples_instead_of_prompts():
    config = imported("""
megatron_training: {global_batch_size: 64, seed: 3, no_shuffle: false}
rl_config: {n_samples_per_prompt: 16, mini_batch_size: 24, epochs: 1, token_level_loss: false}
""")
    assert setting(config, "batch.global_batch") == "1024"
    assert setting(config, "batch.mini_batches") == "3"
    assert "differ by one sample" in note_of(config, "rl_config.mini_batch_size")
    assert setting(config, "batch.seed") == "3"
    assert setting(config, "batch.shuffle") == "true"
    assert setting(config, "loss.aggregation") == "seq-mean-token-mean"
    assert "unused: the trainer repeats passes over a step" in outcome(config, "rl_config.epochs")


def test_the_preset_uses_its_own_partitions():
    config = imported(dynamic_batch_size, preset=True)
    assert setting(config, "balance.preset") == "mindspeed-rl"
    assert setting(config, "balance.algorithm") == "none", "it balances over DP ranks only when asked to"
    balanced = imported(dynamic_batch_size + "  use_dp_batch_balance: true\n", preset=True)
    assert setting(balanced, "balance.algorithm") == "auto"
    assert setting(imported(dynamic_batch_size), "balance.preset") == "(not set)"
    assert setting(imported(dynamic_batch_size), "balance.algorithm") == "(not set)"


def test_disabling_features_that_are_always_on_is_reported():
    config = imported("""
megatron_training: {reset_position_ids: false, variable_seq_lengths: true}
rl_config: {use_remove_padding: false}
""")
    assert outcome(config, "megatron_training.reset_position_ids") == (
        "unused: always true in Evenkeel: positions start at 0 in every sequence"
    )
    assert outcome(config, "rl_config.use_remove_padding") == "unused: Evenkeel packs samples, so nothing is computed on padding"


def test_the_kind_of_job_determines_the_loss_aggregation():
    def loss_of(stage, rest):
        config = imported(f"megatron_training: {{stage: {stage}, global_batch_size: 8}}\n{rest}")
        return setting(config, "loss.aggregation")

    assert loss_of("ray_grpo", "rl_config: {mini_batch_size: 8}") == "token-mean"
    assert loss_of("ray_ppo", "rl_config: {token_level_loss: false}") == "token-mean", "only DAPO reads it"
    assert loss_of("ray_dapo", "rl_config: {token_level_loss: false}") == "seq-mean-token-mean"
    assert loss_of("ray_dapo", "rl_config: {mini_batch_size: 8}") == "(not set)"


def test_virtual_stages_follow_from_the_layers_of_the_model():
    actor = """
actor_config: {model: small, pipeline_model_parallel_size: 4, num_layers_per_virtual_pipeline_stage: 2}
"""
    config = imported(actor + "model: {small: {num_layers: 32}, large: {num_layers: 64}}")
    assert setting(config, "mesh.vpp") == "4"
    assert outcome(config, "model.small.num_layers") == "mesh.vpp: 4"
    assert "actor_config.num_layers_per_virtual_pipeline_stage -> mesh.vpp: 1" in missing(imported(actor))
