#include "import_fixtures.hpp"

namespace evenkeel {
namespace {

using test::imported;
using test::missing;
using test::note_of;
using test::setting;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// A whole verl job but for what `actor` says of it.
std::string verl(const std::string& actor, const std::string& rest = {}) {
  return "data: {train_batch_size: 64, max_response_length: 1024}\n"
         "actor_rollout_ref:\n"
         "  actor: {strategy: fsdp, ppo_mini_batch_size: 32, " +
         actor +
         "}\n"
         "  rollout: {n: 4, log_prob_micro_batch_size_per_gpu: 2}\n" +
         rest;
}

const std::string dynamic = "use_dynamic_bsz: true, ppo_max_token_len_per_gpu: 8192, ";

TEST(ImportMissing, a_job_that_says_everything_misses_nothing) {
  EXPECT_THAT(missing(imported(verl(dynamic + "loss_agg_mode: token-mean"))), IsEmpty());
}

TEST(ImportMissing, a_cap_that_leads_nowhere) {
  const ImportedConfig config = imported(
      verl("use_dynamic_bsz: true, ppo_max_token_len_per_gpu: \"${my.cap}\", loss_agg_mode: token-mean"));
  ASSERT_EQ(config.missing.size(), 1U);
  EXPECT_EQ(config.missing[0].foreign, "actor_rollout_ref.actor.ppo_max_token_len_per_gpu");
  EXPECT_EQ(config.missing[0].value, "${my.cap}");
  EXPECT_THAT(config.missing[0].evenkeel, ElementsAre("micro_batch.max_tokens: 8192"));
  EXPECT_EQ(config.missing[0].why, "refers to my.cap, which this file does not have");
}

TEST(ImportMissing, a_cap_that_no_key_says) {
  EXPECT_THAT(
      missing(imported(verl("use_dynamic_bsz: true, loss_agg_mode: token-mean"))),
      ElementsAre("actor_rollout_ref.actor.ppo_max_token_len_per_gpu -> micro_batch.max_tokens: 8192"));
}

TEST(ImportMissing, a_cap_has_to_be_known_only_where_it_is_used) {
  EXPECT_THAT(missing(imported(
                  verl("use_dynamic_bsz: false, ppo_micro_batch_size_per_gpu: 2, loss_agg_mode: token-mean, "
                       "ppo_max_token_len_per_gpu: \"${my.cap}\""))),
              IsEmpty());
}

TEST(ImportMissing, a_cap_of_one_gpu_while_the_gpus_of_a_sequence_are_not_known) {
  EXPECT_THAT(missing(imported(
                  verl(dynamic + "loss_agg_mode: token-mean, ulysses_sequence_parallel_size: \"${sp}\""))),
              ElementsAre("actor_rollout_ref.actor.ppo_max_token_len_per_gpu -> micro_batch.max_tokens: 8192",
                          "actor_rollout_ref.actor.ulysses_sequence_parallel_size -> mesh.cp: 1"));
}

TEST(ImportMissing, a_size_that_no_key_says) {
  EXPECT_THAT(
      missing(imported(verl("use_dynamic_bsz: false, loss_agg_mode: token-mean"))),
      ElementsAre("actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu -> micro_batch.mode: packed"));
}

TEST(ImportMissing, a_size_over_all_gpus_needs_their_number) {
  const std::string actor = "use_dynamic_bsz: false, ppo_micro_batch_size: 32, loss_agg_mode: token-mean";
  EXPECT_THAT(missing(imported(verl(actor))),
              ElementsAre("actor_rollout_ref.actor.ppo_micro_batch_size -> micro_batch.size: 1"));
  const ImportedConfig known = imported(verl(actor, "trainer: {nnodes: 2, n_gpus_per_node: 8}"));
  EXPECT_THAT(missing(known), IsEmpty());
  EXPECT_EQ(setting(known, "micro_batch.size"), "2");
}

TEST(ImportMissing, batches_and_what_sums_up_losses) {
  EXPECT_THAT(
      missing(imported("actor_rollout_ref: {actor: {strategy: fsdp, use_dynamic_bsz: true, "
                       "ppo_max_token_len_per_gpu: 8192}, rollout: {log_prob_micro_batch_size_per_gpu: 1}}")),
      ElementsAre("data.train_batch_size -> batch.global_batch: 256",
                  "actor_rollout_ref.actor.ppo_mini_batch_size -> batch.mini_batches: 1",
                  "actor_rollout_ref.actor.loss_agg_mode -> loss.aggregation: token-mean"));
}

TEST(ImportMissing, the_divisor_is_the_stated_one_or_the_padded_width) {
  const std::string norm = dynamic + "loss_agg_mode: seq-mean-token-sum-norm, loss_scale_factor: ";
  EXPECT_EQ(setting(imported(verl(norm + "512")), "loss.norm_length"), "512");
  const ImportedConfig padded = imported(verl(norm + "null"));
  EXPECT_EQ(setting(padded, "loss.norm_length"), "1024");
  EXPECT_THAT(missing(padded), IsEmpty());
  EXPECT_THAT(note_of(padded, "data.max_response_length"), HasSubstr("divides by this width"));
  EXPECT_THAT(
      missing(imported(
          "data: {train_batch_size: 8}\nactor_rollout_ref: {actor: {ppo_mini_batch_size: 8, strategy: fsdp, "
          "loss_agg_mode: seq-mean-token-sum-norm, ppo_micro_batch_size_per_gpu: 1}, "
          "rollout: {log_prob_micro_batch_size_per_gpu: 1}}")),
      ElementsAre("actor_rollout_ref.actor.loss_scale_factor -> loss.norm_length: 1"));
}

TEST(ImportMissing, roll_divides_by_the_whole_padded_sequence_less_one) {
  const std::string job = R"(
rollout_batch_size: 8
loss_agg_mode: seq-mean-token-sum-norm
actor_train:
  strategy_args: {strategy_name: megatron_train}
  device_mapping: list(range(0,4))
  training_args: {per_device_train_batch_size: 1}
)";
  EXPECT_EQ(setting(imported(job + "sequence_length: 4096"), "loss.norm_length"), "4095");
  EXPECT_EQ(setting(imported(job + "prompt_length: 1024\nresponse_length: 2048"), "loss.norm_length"),
            "3071");
  EXPECT_THAT(note_of(imported(job + "sequence_length: 4096"), "sequence_length"),
              HasSubstr("ROLL does not divide by the number of samples"));
  EXPECT_THAT(missing(imported(job + "response_length: 2048")),
              ElementsAre("prompt_length -> loss.norm_length: 1"));
}

TEST(ImportMissing, a_width_that_changes_with_each_micro_batch_is_no_divisor) {
  EXPECT_THAT(missing(imported(R"(
rollout_batch_size: 8
sequence_length: 4096
loss_agg_mode: seq-mean-token-sum-norm
actor_train:
  strategy_args: {strategy_name: megatron_train}
  device_mapping: list(range(0,4))
  training_args: {per_device_train_batch_size: 1}
  use_dynamic_batching_in_train: true
  max_tokens_per_microbatch_in_train: 8192
)")),
              ElementsAre("loss_agg_mode -> loss.norm_length: 1"));
}

TEST(ImportMissing, a_trainer_that_is_not_known_decides_mesh_and_loss) {
  const ImportedConfig config = imported(
      "data: {train_batch_size: 8}\nactor_rollout_ref: {actor: {ppo_mini_batch_size: 8, strategy: veomni, "
      "loss_agg_mode: "
      "token-mean, ppo_micro_batch_size_per_gpu: 1}, rollout: {log_prob_micro_batch_size_per_gpu: 1}}");
  ASSERT_EQ(config.missing.size(), 1U);
  EXPECT_EQ(config.missing[0].foreign, "actor_rollout_ref.actor.strategy");
  EXPECT_THAT(config.missing[0].evenkeel, Contains("loss.micro_batches: sum"));
  EXPECT_THAT(config.missing[0].evenkeel, Contains("mesh.cp: 1"));
}

TEST(ImportMissing, sizes_that_the_trainer_does_not_read_are_left) {
  const ImportedConfig config = imported(
      verl(dynamic +
           "loss_agg_mode: token-mean, megatron: {tensor_model_parallel_size: 8, context_parallel_size: 4}"));
  EXPECT_EQ(setting(config, "mesh.tp"), "(not set)");
  EXPECT_EQ(setting(config, "micro_batch.max_tokens"), "8192");
  EXPECT_THAT(missing(config), IsEmpty());
  EXPECT_EQ(test::outcome(config, "actor_rollout_ref.actor.megatron.tensor_model_parallel_size"),
            "unused: only Megatron reads it, and this job trains with fsdp");
}

TEST(ImportMissing, a_mesh_of_another_model_and_one_that_changes) {
  const std::string mesh =
      "data: {train_batch_size: 8}\nactor_rollout_ref:\n"
      "  actor: {strategy: megatron, ppo_mini_batch_size: 8, loss_agg_mode: token-mean, "
      "ppo_micro_batch_size_per_gpu: 1, "
      "megatron: {tensor_model_parallel_size: 4, dynamic_context_parallel: ";
  const std::string rest = "}}\n  rollout: {log_prob_micro_batch_size_per_gpu: 1}\n";
  EXPECT_THAT(
      missing(imported(
          mesh + "false" + rest +
          "  ref: {log_prob_micro_batch_size_per_gpu: 1, megatron: {tensor_model_parallel_size: 2}}")),
      ElementsAre("actor_rollout_ref.ref.megatron.tensor_model_parallel_size -> mesh.tp: 4"));
  EXPECT_THAT(missing(imported(mesh + "true" + rest)),
              ElementsAre("actor_rollout_ref.actor.megatron.dynamic_context_parallel -> mesh.cp: 1"));
}

TEST(ImportMissing, a_section_that_leaves_out_a_size_of_the_mesh_means_one) {
  const std::string job = R"(
rollout_batch_size: 8
actor_train:
  strategy_args: {strategy_name: megatron_train, strategy_config: {tensor_model_parallel_size: 4}}
  device_mapping: list(range(0,4))
  training_args: {per_device_train_batch_size: 1}
reference:
  strategy_args: {strategy_name: megatron_infer, strategy_config: )";
  EXPECT_THAT(
      missing(imported(job + "{bf16: true}}")),
      ElementsAre("reference.strategy_args.strategy_config.tensor_model_parallel_size -> mesh.tp: 4"));
  EXPECT_THAT(
      missing(imported(job + "~}")),
      ElementsAre("reference.strategy_args.strategy_config.tensor_model_parallel_size -> mesh.tp: 4"));
  EXPECT_THAT(missing(imported(job + "{tensor_model_parallel_size: 4}}")), IsEmpty());
}

TEST(ImportMissing, passes_that_do_not_run_ask_for_nothing) {
  const std::string job =
      verl(dynamic + "loss_agg_mode: token-mean, use_kl_loss: false",
           "  ref: {log_prob_use_dynamic_bsz: true, megatron: {tensor_model_parallel_size: 8}}\n"
           "critic: {use_dynamic_bsz: true, strategy: megatron}\n"
           "algorithm: {adv_estimator: grpo, use_kl_in_reward: false}");
  const ImportedConfig config = imported(job);
  EXPECT_THAT(missing(config), IsEmpty());
  EXPECT_EQ(setting(config, "profiles.critic_update"), "(not set)");
  EXPECT_EQ(test::outcome(config, "critic.use_dynamic_bsz"),
            "unused: advantages are not GAE: the critic does not run");
  EXPECT_EQ(test::outcome(config, "actor_rollout_ref.ref.log_prob_use_dynamic_bsz"),
            "unused: no KL term is asked for: the reference model does not run");
}

TEST(ImportMissing, a_critic_may_have_a_loss_of_its_own) {
  const ImportedConfig config = imported(verl(
      dynamic + "loss_agg_mode: token-mean",
      "critic: {use_dynamic_bsz: true, ppo_max_token_len_per_gpu: 4096, forward_max_token_len_per_gpu: 4096, "
      "loss_agg_mode: seq-mean-token-sum-norm, loss_scale_factor: 256}"));
  EXPECT_THAT(missing(config), IsEmpty());
  EXPECT_EQ(setting(config, "profiles.critic_update.loss.aggregation"), "seq-mean-token-sum-norm");
  EXPECT_EQ(setting(config, "profiles.critic_update.loss.norm_length"), "256");
  EXPECT_EQ(setting(config, "loss.aggregation"), "token-mean");
}

TEST(ImportMissing, what_a_file_that_is_not_found_may_say) {
  const ImportedConfig config = imported(
      "defaults: [{actor@actor_rollout_ref.actor: dp_actor}, {optim@optim: adam}, _self_]\n"
      "data: {train_batch_size: 8}\nactor_rollout_ref: {rollout: {n: 1, log_prob_micro_batch_size_per_gpu: "
      "1}}");
  EXPECT_THAT(missing(config),
              Contains("actor_rollout_ref.actor.ppo_mini_batch_size -> batch.mini_batches: 1"));
  EXPECT_THAT(missing(config),
              Contains("actor_rollout_ref.actor.use_dynamic_bsz -> micro_batch.mode: packed"));
  EXPECT_THAT(missing(config),
              Contains("actor_rollout_ref.actor.loss_agg_mode -> loss.aggregation: token-mean"));
  EXPECT_THAT(config.missing[0].why, HasSubstr("actor/dp_actor.yaml may say it, and that file is not found"));
  for (const MissingSetting& it : config.missing) EXPECT_THAT(it.foreign, Not(HasSubstr("optim")));
  EXPECT_THAT(import_table(config), HasSubstr("not found: optim/adam.yaml (optim@optim: adam)\n"));
}

TEST(ImportMissing, a_section_that_leads_nowhere_hides_its_mesh) {
  const std::string job = R"(
rollout_batch_size: 8
actor_train:
  strategy_args: {strategy_name: megatron_train, strategy_config: "${grid}"}
  device_mapping: list(range(0,4))
  training_args: {per_device_train_batch_size: 1}
)";
  EXPECT_THAT(missing(imported(job)),
              Contains("actor_train.strategy_args.strategy_config.tensor_model_parallel_size -> mesh.tp: 1"));
  const ImportedConfig found = imported(job + "grid: {tensor_model_parallel_size: 2}");
  EXPECT_THAT(missing(found), IsEmpty());
  EXPECT_EQ(setting(found, "mesh.tp"), "2");
}

TEST(ImportMissing, devices_that_cannot_be_counted) {
  EXPECT_THAT(missing(imported(R"(
rollout_batch_size: 8
actor_train:
  strategy_args: {strategy_name: megatron_train}
  device_mapping: my_devices()
  training_args: {per_device_train_batch_size: 1}
)")),
              ElementsAre("actor_train.device_mapping -> batch.mini_batches: 1"));
}

TEST(ImportMissing, distillation_has_a_loss_of_its_own) {
  EXPECT_THAT(missing(imported(R"(
student:
  training_args: {per_device_train_batch_size: 8, gradient_accumulation_steps: 4, num_train_epochs: 1}
  strategy_args: {strategy_name: megatron_train, strategy_config: {tensor_model_parallel_size: 2}}
  device_mapping: list(range(0,8))
teacher:
  training_args: {per_device_train_batch_size: 8}
distill_loss_weight: 0.85
)")),
              ElementsAre("distill_loss_weight -> loss.aggregation: token-mean"));
}

TEST(ImportMissing, is_in_the_table_with_what_would_be_used) {
  const std::string table = import_table(imported(verl("use_dynamic_bsz: true, loss_agg_mode: token-mean")));
  EXPECT_THAT(table, HasSubstr("not found "));
  EXPECT_THAT(table, HasSubstr("Evenkeel would use"));
  EXPECT_THAT(table, HasSubstr("micro_batch.max_tokens: 8192"));
  EXPECT_THAT(table, HasSubstr("to be set: source.kind"));
}

TEST(ImportMissing, text_of_the_file_cannot_steer_the_terminal_or_the_configuration) {
  const ImportedConfig config =
      imported("rollout_batch_size: 64\n\"\\e[31mred\\nkey: 1\": \"\\e[2J\"\n\"seed\": 3\n");
  EXPECT_EQ(import_table(config).find('\x1b'), std::string::npos);
  EXPECT_THAT(import_table(config), HasSubstr("\\x1b[31mred\\nkey: 1"));
  EXPECT_EQ(config.yaml.find('\x1b'), std::string::npos);
}

TEST(ImportMissing, secrets_of_the_environment_are_not_shown) {
  ImportSettings options;
  options.environment = {{"API_KEY", "hunter2"}};
  const ImportedConfig config = imported("rollout_batch_size: 64\napi: ${oc.env:API_KEY}", options);
  EXPECT_THAT(import_table(config), Not(HasSubstr("hunter2")));
}

}  // namespace
}  // namespace evenkeel
