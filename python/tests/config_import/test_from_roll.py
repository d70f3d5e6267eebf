"""Tests of the conversion of ROLL's keys."""

import pytest

from evenkeel import ConfigError
from imports import imported, outcome, outcomes, setting

dynamic_batching = """
actor_train:
  system_envs:
    NVTE_FLASH_ATTN: '1'
    NVTE_FUSED_ATTN: '0'
    NVTE_UNFUSED_ATTN: '0'
  model_args:
    attn_implementation: fa2
    disable_gradient_checkpointing: false
    dtype: bf16
    model_type: ~
  training_args:
    learning_rate: 1.0e-6
    weight_decay: 0
    per_device_train_batch_size: 2
    gradient_accumulation_steps: 64
    warmup_steps: 10
    lr_scheduler_type: cosine
  data_args:
    template: qwen2_5
  strategy_args:
    strategy_name: megatron_train
    strategy_config:
      tensor_model_parallel_size: 1
      pipeline_model_parallel_size: 1
      expert_model_parallel_size: 1
      use_distributed_optimizer: true
  device_mapping: list(range(0,8))
  infer_batch_size: 2
  use_dynamic_batching_in_train: true
  max_tokens_per_microbatch_in_train: 8192
  sequence_length_round_in_train: 128
  use_dynamic_batching_in_infer: true
  max_tokens_per_microbatch_in_infer: 16384
  sequence_length_round_in_infer: 128
actor_infer:
  model_args:
    disable_gradient_checkpointing: true
    dtype: bf16
  generating_args:
    max_new_tokens: 128
    top_p: 0.99
    top_k: 100
    num_beams: 1
    temperature: 0.99
    num_return_sequences: 1
  data_args:
    template: qwen2_5
  strategy_args:
    strategy_name: vllm
    strategy_config:
      gpu_memory_utilization: 0.8
      block_size: 16
      load_format: auto
  device_mapping: list(range(0,8))
reference:
  model_args:
    attn_implementation: fa2
    disable_gradient_checkpointing: true
    dtype: bf16
    model_type: ~
  data_args:
    template: qwen2_5
  strategy_args:
    strategy_name: megatron_infer
    strategy_config: ~
  device_mapping: list(range(0,8))
  infer_batch_size: 2
  use_dynamic_batching_in_infer: true
  max_tokens_per_microbatch_in_infer: 16384
  sequence_length_round_in_infer: 128
"""
sequence_packing = """
actor_train:
  use_sequence_packing: True
  sequence_packing_args:
    algorithm: load_balance
    max_packed_sequence_length_train: 8192
    max_packed_sequence_length_forward: 8192
    min_num_micro_batches_train: 1
    min_num_micro_batches_forward: 1
  strategy_args:
    strategy_name: megatron_train
"""


def test_dynamic_batching_becomes_padded_profiles_and_every_other_key_is_named():
    model = "unused: the model and its training"
    environment = "unused: the environment of the trainer's processes"
    generation = "unused: generation"
    prompts = "unused: where prompts come from: set source to where the rollouts are"
    step_size = "unused: batch.mini_batches needs the size of a step, which this file does not specify"
    no_effect = "has no effect when micro_batch.mode is padded"
    config = imported(dynamic_batching)
    assert config.system == "roll"
    assert outcomes(config) == {
        "actor_train.system_envs.NVTE_FLASH_ATTN": environment,
        "actor_train.system_envs.NVTE_FUSED_ATTN": environment,
        "actor_train.system_envs.NVTE_UNFUSED_ATTN": environment,
        "actor_train.model_args.attn_implementation": model,
        "actor_train.model_args.disable_gradient_checkpointing": model,
        "actor_train.model_args.dtype": model,
        "actor_train.model_args.model_type": model,
        "actor_train.training_args.learning_rate": model,
        "actor_train.training_args.weight_decay": model,
        "actor_train.training_args.per_device_train_batch_size": step_size + "; " + no_effect,
        "actor_train.training_args.gradient_accumulation_steps": step_size,
        "actor_train.training_args.warmup_steps": model,
        "actor_train.training_args.lr_scheduler_type": model,
        "actor_train.data_args.template": prompts,
        "actor_train.strategy_args.strategy_name": "loss.micro_batches: mean, loss.dp_ranks: mean",
        "actor_train.strategy_args.strategy_config.tensor_model_parallel_size": "mesh.tp: 1",
        "actor_train.strategy_args.strategy_config.pipeline_model_parallel_size": "mesh.pp: 1",
        "actor_train.strategy_args.strategy_config.expert_model_parallel_size":
            "unused: experts are spread over dp, without their own axis",
        "actor_train.strategy_args.strategy_config.use_distributed_optimizer": model,
        "actor_train.device_mapping": step_size,
        "actor_train.infer_batch_size": "unused: " + no_effect,
        "actor_train.use_dynamic_batching_in_train":
            "micro_batch.mode: padded, profiles.train.micro_batch.mode: padded",
        "actor_train.max_tokens_per_microbatch_in_train":
            "micro_batch.max_tokens: 8192, profiles.train.micro_batch.max_tokens: 8192",
        "actor_train.sequence_length_round_in_train":
            "micro_batch.length_round: 128, profiles.train.micro_batch.length_round: 128",
        "actor_train.use_dynamic_batching_in_infer": "profiles.forward.micro_batch.mode: padded",
        "actor_train.max_tokens_per_microbatch_in_infer": "profiles.forward.micro_batch.max_tokens: 16384",
        "actor_train.sequence_length_round_in_infer": "profiles.forward.micro_batch.length_round: 128",
        "actor_infer.model_args.disable_gradient_checkpointing": generation,
        "actor_infer.model_args.dtype": generation,
        "actor_infer.generating_args.max_new_tokens": generation,
        "actor_infer.generating_args.top_p": generation,
        "actor_infer.generating_args.top_k": generation,
        "actor_infer.generating_args.num_beams": generation,
        "actor_infer.generating_args.temperature": generation,
        "actor_infer.generating_args.num_return_sequences":
            "unused: the step's number of prompts is not in this file: set batch.global_batch",
        "actor_infer.data_args.template": generation,
        "actor_infer.strategy_args.strategy_name": generation,
        "actor_infer.strategy_args.strategy_config.gpu_memory_utilization": generation,
        "actor_infer.strategy_args.strategy_config.block_size": generation,
        "actor_infer.strategy_args.strategy_config.load_format": generation,
        "actor_infer.device_mapping": generation,
        "reference.model_args.attn_implementation": model,
        "reference.model_args.disable_gradient_checkpointing": model,
        "reference.model_args.dtype": model,
        "reference.model_args.model_type": model,
        "reference.data_args.template": prompts,
        "reference.strategy_args.strategy_name": model,
        "reference.strategy_args.strategy_config": model,
        "reference.device_mapping": "unused: the launcher determines where ranks run",
        "reference.infer_batch_size": "unused: " + no_effect,
        "reference.use_dynamic_batching_in_infer": "profiles.reference.micro_batch.mode: padded",
        "reference.max_tokens_per_microbatch_in_infer": "profiles.reference.micro_batch.max_tokens: 16384",
        "reference.sequence_length_round_in_infer": "profiles.reference.micro_batch.length_round: 128",
    }


def test_sequence_packing_becomes_packed_profiles():
    config = imported(sequence_packing)
    assert config.yaml == """\
# Imported from a ROLL configuration, which does not specify where samples come from. Set it:
# source: {kind: jsonl, path: rollouts.jsonl}
balance:
  cost: flops-7b                    # ROLL balances work, not tokens
micro_batch:
  mode: packed                      # actor_train.use_sequence_packing, actor_train.sequence_packing_args.algorithm
  max_tokens: 8192                  # actor_train.sequence_packing_args.max_packed_sequence_length_train
  min_count: 1                      # actor_train.sequence_packing_args.min_num_micro_batches_train
loss:
  aggregation: seq-mean-token-mean  # ROLL's default
  fully_masked: skip                # ROLL counts samples that have loss tokens
  micro_batches: mean               # actor_train.strategy_args.strategy_name
  dp_ranks: mean                    # actor_train.strategy_args.strategy_name
profiles:
  train:
    micro_batch:
      mode: packed                  # actor_train.use_sequence_packing, actor_train.sequence_packing_args.algorithm
      max_tokens: 8192              # actor_train.sequence_packing_args.max_packed_sequence_length_train
      min_count: 1                  # actor_train.sequence_packing_args.min_num_micro_batches_train
  forward:
    micro_batch:
      mode: packed                  # actor_train.use_sequence_packing, actor_train.sequence_packing_args.algorithm
      max_tokens: 8192              # actor_train.sequence_packing_args.max_packed_sequence_length_forward
      min_count: 1                  # actor_train.sequence_packing_args.min_num_micro_batches_forward
"""
    assert config.unused == []


def test_the_preset_aligns_packs_as_roll_does():
    packed = imported(sequence_packing, preset=True)
    assert setting(packed, "balance.preset") == "roll"
    assert setting(packed, "pack.align_lcm") == "16"
    assert setting(packed, "balance.algorithm") == "(not set)"
    assert setting(imported(dynamic_batching, preset=True), "pack.align_lcm") == "(not set)"


def test_packing_in_source_order_becomes_fixed_micro_batches():
    config = imported("""
actor_train:
  training_args: {per_device_train_batch_size: 4}
  infer_batch_size: 8
  use_sequence_packing: true
  sequence_packing_args: {algorithm: none, max_packed_sequence_length_train: 8192, min_num_micro_batches_train: 2}
""")
    assert setting(config, "micro_batch.mode") == "fixed"
    assert setting(config, "micro_batch.size") == "4"
    assert setting(config, "micro_batch.max_tokens") == "8192"
    assert setting(config, "profiles.forward.micro_batch.size") == "8"
    assert outcome(config, "actor_train.sequence_packing_args.min_num_micro_batches_train") == (
        "unused: has no effect when micro_batch.mode is fixed"
    )


def test_without_an_algorithm_packing_keeps_the_source_order_as_roll_does():
    config = imported("actor_train: {use_sequence_packing: true, infer_batch_size: 8}")
    assert setting(config, "profiles.forward.micro_batch.mode") == "fixed"


def test_arguments_of_disabled_features_are_reported():
    config = imported("""
actor_train:
  use_sequence_packing: false
  sequence_packing_args: {algorithm: load_balance, max_packed_sequence_length_train: 8192}
  use_dynamic_batching_in_train: true
  max_tokens_per_microbatch_in_train: 4096
  use_dynamic_batching_in_infer: false
  max_tokens_per_microbatch_in_infer: 0
""")
    assert setting(config, "micro_batch.mode") == "padded"
    assert "no effect when micro_batch.mode is padded" in (
        outcome(config, "actor_train.sequence_packing_args.max_packed_sequence_length_train")
    )
    assert outcome(config, "actor_train.max_tokens_per_microbatch_in_infer") == (
        "unused: has no effect when micro_batch.mode is fixed"
    ), "ROLL's default is infer_batch_size: 16"


def test_every_model_has_its_own_profiles():
    config = imported("""
actor_train: {use_dynamic_batching_in_train: true, max_tokens_per_microbatch_in_train: 4096}
critic:
  use_dynamic_batching_in_train: true
  max_tokens_per_microbatch_in_train: 2048
  use_dynamic_batching_in_infer: true
  max_tokens_per_microbatch_in_infer: 8192
""")
    assert setting(config, "profiles.train.micro_batch.max_tokens") == "4096"
    assert setting(config, "profiles.critic_train.micro_batch.max_tokens") == "2048"
    assert setting(config, "profiles.critic_forward.micro_batch.max_tokens") == "8192"
    assert setting(config, "profiles.forward.micro_batch.size") == "16", "ROLL's default"


def test_mini_batches_follow_from_the_accumulation_steps():
    config = imported("""
seed: 42
rollout_batch_size: 128
num_return_sequences_in_group: 8
loss_agg_mode: seq-mean-token-mean
actor_train:
  training_args: {per_device_train_batch_size: 2, gradient_accumulation_steps: 32}
  strategy_args:
    strategy_name: megatron_train
    strategy_config: {tensor_model_parallel_size: 2, context_parallel_size: 2}
  device_mapping: list(range(0,16))
""")
    assert setting(config, "batch.global_batch") == "1024"
    assert setting(config, "batch.mini_batches") == "4", "2 samples x 32 steps x 4 DP ranks = 256"
    assert setting(config, "batch.seed") == "42"
    assert setting(config, "mesh.cp") == "2"
    assert setting(config, "loss.aggregation") == "seq-mean-token-mean"
    assert setting(config, "micro_batch.mode") == "fixed"
    assert setting(config, "micro_batch.size") == "2"


def test_a_document_that_lost_its_indentation_is_refused_by_line():
    with pytest.raises(ConfigError, match="model_args: the key is given twice"):
        imported("actor_train:\nsystem_envs:\nNVTE_FLASH_ATTN: '1'\nmodel_args:\nmodel_args:\ndtype: bf16\n")
