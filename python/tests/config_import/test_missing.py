"""Settings that determine memory, batches, the mesh or the loss, and that cannot be found."""

from evenkeel.config_import.text import import_table
from imports import imported, missing, note_of, outcome, setting


def verl(actor, rest=""):
    """Returns a complete verl job, except for the keys of `actor`."""
    return f"""
data: {{train_batch_size: 64, max_response_length: 1024}}
actor_rollout_ref:
  actor: {{strategy: fsdp, ppo_mini_batch_size: 32, {actor}}}
  rollout: {{n: 4, log_prob_micro_batch_size_per_gpu: 2}}
{rest}"""


dynamic = "use_dynamic_bsz: true, ppo_max_token_len_per_gpu: 8192, "


def test_a_complete_job_has_no_missing_settings():
    assert missing(imported(verl(dynamic + "loss_agg_mode: token-mean"))) == []


def test_a_cap_whose_reference_cannot_be_resolved_is_missing():
    config = imported(verl('use_dynamic_bsz: true, ppo_max_token_len_per_gpu: "${my.cap}", loss_agg_mode: token-mean'))
    assert len(config.missing) == 1
    assert config.missing[0].foreign == "actor_rollout_ref.actor.ppo_max_token_len_per_gpu"
    assert config.missing[0].value == "${my.cap}"
    assert config.missing[0].evenkeel == ["micro_batch.max_tokens: 8192"]
    assert config.missing[0].why == "refers to my.cap, which this file does not have"


def test_a_cap_without_a_key_is_missing():
    assert missing(imported(verl("use_dynamic_bsz: true, loss_agg_mode: token-mean"))) == [
        "actor_rollout_ref.actor.ppo_max_token_len_per_gpu -> micro_batch.max_tokens: 8192",
    ]


def test_a_cap_is_required_only_if_it_is_used():
    fixed = 'use_dynamic_bsz: false, ppo_micro_batch_size_per_gpu: 2, ppo_max_token_len_per_gpu: "${my.cap}"'
    assert missing(imported(verl(fixed + ", loss_agg_mode: token-mean"))) == [
    ]


def test_a_cap_of_one_gpu_while_the_gpus_of_a_sequence_are_not_known():
    actor = dynamic + 'loss_agg_mode: token-mean, ulysses_sequence_parallel_size: "${sp}"'
    assert missing(imported(verl(actor))) == [
        "actor_rollout_ref.actor.ppo_max_token_len_per_gpu -> micro_batch.max_tokens: 8192",
        "actor_rollout_ref.actor.ulysses_sequence_parallel_size -> mesh.cp: 1",
    ]


def test_a_size_without_a_key_is_missing():
    assert missing(imported(verl("use_dynamic_bsz: false, loss_agg_mode: token-mean"))) == [
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu -> micro_batch.mode: packed",
    ]


def test_a_size_over_all_gpus_needs_their_number():
    actor = "use_dynamic_bsz: false, ppo_micro_batch_size: 32, loss_agg_mode: token-mean"
    assert missing(imported(verl(actor))) == ["actor_rollout_ref.actor.ppo_micro_batch_size -> micro_batch.size: 1"]
    known = imported(verl(actor, "trainer: {nnodes: 2, n_gpus_per_node: 8}"))
    assert missing(known) == []
    assert setting(known, "micro_batch.size") == "2"


def test_batches_and_loss_aggregation_can_be_missing():
    assert missing(imported("""
actor_rollout_ref:
  actor: {strategy: fsdp, use_dynamic_bsz: true, ppo_max_token_len_per_gpu: 8192}
  rollout: {log_prob_micro_batch_size_per_gpu: 1}
""")) == [
        "data.train_batch_size -> batch.global_batch: 256",
        "actor_rollout_ref.actor.ppo_mini_batch_size -> batch.mini_batches: 1",
        "actor_rollout_ref.actor.loss_agg_mode -> loss.aggregation: token-mean",
    ]


def test_the_divisor_is_the_stated_one_or_the_padded_width():
    norm = dynamic + "loss_agg_mode: seq-mean-token-sum-norm, loss_scale_factor: "
    assert setting(imported(verl(norm + "512")), "loss.norm_length") == "512"
    padded = imported(verl(norm + "null"))
    assert setting(padded, "loss.norm_length") == "1024"
    assert missing(padded) == []
    assert "divides by this width" in note_of(padded, "data.max_response_length")
    assert missing(imported("""
data: {train_batch_size: 8}
actor_rollout_ref:
  actor:
    {ppo_mini_batch_size: 8, strategy: fsdp, loss_agg_mode: seq-mean-token-sum-norm, ppo_micro_batch_size_per_gpu: 1}
  rollout: {log_prob_micro_batch_size_per_gpu: 1}
""")) == [
        "actor_rollout_ref.actor.loss_scale_factor -> loss.norm_length: 1",
    ]


def test_roll_divides_by_the_whole_padded_sequence_less_one():
    job = """
rollout_batch_size: 8
loss_agg_mode: seq-mean-token-sum-norm
actor_train:
  strategy_args: {strategy_name: megatron_train}
  device_mapping: list(range(0,4))
  training_args: {per_device_train_batch_size: 1}
"""
    assert setting(imported(job + "sequence_length: 4096"), "loss.norm_length") == "4095"
    assert setting(imported(job + "prompt_length: 1024\nresponse_length: 2048"), "loss.norm_length") == "3071"
    assert "ROLL does not divide by the number of samples" in (
        note_of(imported(job + "sequence_length: 4096"), "sequence_length")
    )
    assert missing(imported(job + "response_length: 2048")) == ["prompt_length -> loss.norm_length: 1"]


def test_a_width_that_changes_with_each_micro_batch_is_not_a_divisor():
    assert missing(imported("""
rollout_batch_size: 8
sequence_length: 4096
loss_agg_mode: seq-mean-token-sum-norm
actor_train:
  strategy_args: {strategy_name: megatron_train}
  device_mapping: list(range(0,4))
  training_args: {per_device_train_batch_size: 1}
  use_dynamic_batching_in_train: true
  max_tokens_per_microbatch_in_train: 8192
""")) == ["loss_agg_mode -> loss.norm_length: 1"]


def test_a_trainer_that_is_not_known_decides_mesh_and_loss():
    config = imported("""
data: {train_batch_size: 8}
actor_rollout_ref:
  actor: {ppo_mini_batch_size: 8, strategy: veomni, loss_agg_mode: token-mean, ppo_micro_batch_size_per_gpu: 1}
  rollout: {log_prob_micro_batch_size_per_gpu: 1}
""")
    assert len(config.missing) == 1
    assert config.missing[0].foreign == "actor_rollout_ref.actor.strategy"
    assert "loss.micro_batches: sum" in config.missing[0].evenkeel
    assert "mesh.cp: 1" in config.missing[0].evenkeel


def test_sizes_that_the_trainer_does_not_read_are_left():
    megatron = "megatron: {tensor_model_parallel_size: 8, context_parallel_size: 4}"
    config = imported(verl(f"{dynamic}loss_agg_mode: token-mean, {megatron}"))
    assert setting(config, "mesh.tp") == "(not set)"
    assert setting(config, "micro_batch.max_tokens") == "8192"
    assert missing(config) == []
    assert outcome(config, "actor_rollout_ref.actor.megatron.tensor_model_parallel_size") == (
        "unused: only Megatron reads it, and this job trains with fsdp"
    )


def test_a_mesh_of_another_model_and_one_that_changes():
    def job(is_dynamic, ref=""):
        return imported(f"""
data: {{train_batch_size: 8}}
actor_rollout_ref:
  actor:
    strategy: megatron
    ppo_mini_batch_size: 8
    loss_agg_mode: token-mean
    ppo_micro_batch_size_per_gpu: 1
    megatron: {{tensor_model_parallel_size: 4, dynamic_context_parallel: {is_dynamic}}}
  rollout: {{log_prob_micro_batch_size_per_gpu: 1}}
{ref}""")

    ref = "  ref: {log_prob_micro_batch_size_per_gpu: 1, megatron: {tensor_model_parallel_size: 2}}"
    assert missing(job("false", ref)) == [
        "actor_rollout_ref.ref.megatron.tensor_model_parallel_size -> mesh.tp: 4",
    ]
    assert missing(job("true")) == [
        "actor_rollout_ref.actor.megatron.dynamic_context_parallel -> mesh.cp: 1",
    ]


def test_a_section_that_leaves_out_a_size_of_the_mesh_means_one():
    job = """
rollout_batch_size: 8
actor_train:
  strategy_args: {strategy_name: megatron_train, strategy_config: {tensor_model_parallel_size: 4}}
  device_mapping: list(range(0,4))
  training_args: {per_device_train_batch_size: 1}
reference:
  strategy_args: {strategy_name: megatron_infer, strategy_config: """
    assert missing(imported(job + "{bf16: true}}")) == [
        "reference.strategy_args.strategy_config.tensor_model_parallel_size -> mesh.tp: 4",
    ]
    assert missing(imported(job + "~}")) == [
        "reference.strategy_args.strategy_config.tensor_model_parallel_size -> mesh.tp: 4",
    ]
    assert missing(imported(job + "{tensor_model_parallel_size: 4}}")) == []


def test_passes_that_do_not_run_require_no_settings():
    job = verl(dynamic + "loss_agg_mode: token-mean, use_kl_loss: false", """\
  ref: {log_prob_use_dynamic_bsz: true, megatron: {tensor_model_parallel_size: 8}}
critic: {use_dynamic_bsz: true, strategy: megatron}
algorithm: {adv_estimator: grpo, use_kl_in_reward: false}
""")
    config = imported(job)
    assert missing(config) == []
    assert setting(config, "profiles.critic_update") == "(not set)"
    assert outcome(config, "critic.use_dynamic_bsz") == "unused: advantages are not GAE: the critic does not run"
    assert outcome(config, "actor_rollout_ref.ref.log_prob_use_dynamic_bsz") == (
        "unused: no KL term is asked for: the reference model does not run"
    )


def test_a_critic_may_have_a_loss_of_its_own():
    config = imported(verl(dynamic + "loss_agg_mode: token-mean", """\
critic:
  use_dynamic_bsz: true
  ppo_max_token_len_per_gpu: 4096
  forward_max_token_len_per_gpu: 4096
  loss_agg_mode: seq-mean-token-sum-norm
  loss_scale_factor: 256
"""))
    assert missing(config) == []
    assert setting(config, "profiles.critic_update.loss.aggregation") == "seq-mean-token-sum-norm"
    assert setting(config, "profiles.critic_update.loss.norm_length") == "256"
    assert setting(config, "loss.aggregation") == "token-mean"


def test_settings_that_a_missing_file_may_have_are_missing():
    config = imported("""
defaults: [{actor@actor_rollout_ref.actor: dp_actor}, {optim@optim: adam}, _self_]
data: {train_batch_size: 8}
actor_rollout_ref: {rollout: {n: 1, log_prob_micro_batch_size_per_gpu: 1}}
""")
    assert "actor_rollout_ref.actor.ppo_mini_batch_size -> batch.mini_batches: 1" in missing(config)
    assert "actor_rollout_ref.actor.use_dynamic_bsz -> micro_batch.mode: packed" in missing(config)
    assert "actor_rollout_ref.actor.loss_agg_mode -> loss.aggregation: token-mean" in missing(config)
    assert "actor/dp_actor.yaml may set it, but that file was not found" in config.missing[0].why
    assert not [it for it in config.missing if "optim" in it.foreign]
    assert "not found: optim/adam.yaml (optim@optim: adam)\n" in import_table(config)


def test_the_mesh_of_an_unresolved_section_is_missing():
    job = """
rollout_batch_size: 8
actor_train:
  strategy_args: {strategy_name: megatron_train, strategy_config: "${grid}"}
  device_mapping: list(range(0,4))
  training_args: {per_device_train_batch_size: 1}
"""
    assert "actor_train.strategy_args.strategy_config.tensor_model_parallel_size -> mesh.tp: 1" in (
        missing(imported(job))
    )
    found = imported(job + "grid: {tensor_model_parallel_size: 2}")
    assert missing(found) == []
    assert setting(found, "mesh.tp") == "2"


def test_devices_that_cannot_be_counted():
    assert missing(imported("""
rollout_batch_size: 8
actor_train:
  strategy_args: {strategy_name: megatron_train}
  device_mapping: my_devices()
  training_args: {per_device_train_batch_size: 1}
""")) == ["actor_train.device_mapping -> batch.mini_batches: 1"]


def test_distillation_has_a_loss_of_its_own():
    assert missing(imported("""
student:
  training_args: {per_device_train_batch_size: 8, gradient_accumulation_steps: 4, num_train_epochs: 1}
  strategy_args: {strategy_name: megatron_train, strategy_config: {tensor_model_parallel_size: 2}}
  device_mapping: list(range(0,8))
teacher:
  training_args: {per_device_train_batch_size: 8}
distill_loss_weight: 0.85
""")) == ["distill_loss_weight -> loss.aggregation: token-mean"]


def test_missing_settings_are_in_the_table_with_the_default():
    table = import_table(imported(verl("use_dynamic_bsz: true, loss_agg_mode: token-mean")))
    assert "not found " in table
    assert "Evenkeel would use" in table
    assert "micro_batch.max_tokens: 8192" in table
    assert "to be set: source.kind" in table


def test_text_of_the_file_cannot_steer_the_terminal_or_the_configuration():
    config = (imported("rollout_batch_size: 64\n\"\\e[31mred\\nkey: 1\": \"\\e[2J\"\n\"seed\": 3\n") )
    assert "\x1b" not in import_table(config)
    assert "\\x1b[31mred\\nkey: 1" in import_table(config)
    assert "\x1b" not in config.yaml


def test_secrets_of_the_environment_are_not_shown():
    config = imported("rollout_batch_size: 64\napi: ${oc.env:API_KEY}", environment={"API_KEY": "hunter2"})
    assert "hunter2" not in import_table(config)
