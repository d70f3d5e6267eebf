#include "import_fixtures.hpp"

namespace evenkeel {
namespace {

using test::imported;
using test::outcome;
using test::Outcomes;
using test::outcomes;
using test::setting;
using testing::HasSubstr;

const std::string dynamic_batch_size = R"(
rl_config:
  use_dynamic_bsz: true
  ref_max_packing_token_size: 8192
  ref_dynamic_max_batch_size: 8
  actor_max_packing_token_size: 8192
  actor_dynamic_max_batch_size: 8
  update_max_packing_token_size: 8192
  update_dynamic_max_batch_size: 8
)";

TEST(ImportMindSpeed, remove_padding_becomes_the_packed_layout) {
  const ImportedConfig config = imported(R"(
megatron_training:
  variable_seq_lengths: true
  reset_position_ids: true
rl_config:
  use_remove_padding: true
)");
  EXPECT_EQ(config.system, ForeignSystem::mindspeed_rl);
  EXPECT_EQ(outcomes(config), (Outcomes{{"megatron_training.variable_seq_lengths", "-"},
                                        {"megatron_training.reset_position_ids", "-"},
                                        {"rl_config.use_remove_padding", "micro_batch.mode: packed"}}));
  EXPECT_EQ(config.yaml,
            "# Imported from a MindSpeed-RL configuration. Where samples come from is not in it and has to "
            "be set:\n"
            "# source: {kind: jsonl, path: rollouts.jsonl}\n"
            "micro_batch:\n"
            "  mode: packed         # rl_config.use_remove_padding\n"
            "loss:\n"
            "  micro_batches: mean  # MindSpeed-RL trains with Megatron\n"
            "  dp_ranks: mean       # MindSpeed-RL trains with Megatron\n");
}

TEST(ImportMindSpeed, dynamic_batch_size_becomes_a_profile_a_stage) {
  const ImportedConfig config = imported(dynamic_batch_size);
  EXPECT_EQ(outcomes(config),
            (Outcomes{
                {"rl_config.use_dynamic_bsz",
                 "micro_batch.mode: packed, profiles.update.micro_batch.mode: packed, "
                 "profiles.actor.micro_batch.mode: packed, profiles.ref.micro_batch.mode: packed"},
                {"rl_config.ref_max_packing_token_size", "profiles.ref.micro_batch.max_tokens: 8192"},
                {"rl_config.ref_dynamic_max_batch_size", "profiles.ref.micro_batch.max_samples: 8"},
                {"rl_config.actor_max_packing_token_size", "profiles.actor.micro_batch.max_tokens: 8192"},
                {"rl_config.actor_dynamic_max_batch_size", "profiles.actor.micro_batch.max_samples: 8"},
                {"rl_config.update_max_packing_token_size",
                 "micro_batch.max_tokens: 8192, profiles.update.micro_batch.max_tokens: 8192"},
                {"rl_config.update_dynamic_max_batch_size",
                 "micro_batch.max_samples: 8, profiles.update.micro_batch.max_samples: 8"},
            }));
}

TEST(ImportMindSpeed, a_stage_without_the_optional_limit_does_not_take_that_of_another) {
  const ImportedConfig config = imported(R"(
rl_config:
  use_dynamic_bsz: true
  update_max_packing_token_size: 8192
  update_dynamic_max_batch_size: 8
  ref_max_packing_token_size: 16384
)");
  EXPECT_EQ(setting(config, "micro_batch.max_samples"), "8");
  EXPECT_EQ(setting(config, "profiles.ref.micro_batch.max_tokens"), "16384");
  EXPECT_EQ(setting(config, "profiles.ref.micro_batch.max_samples"), "null");
}

TEST(ImportMindSpeed, the_profiles_can_be_asked_for_by_the_names_of_the_stages) {
  const Config config = parse_config(imported(R"(
actor_config: {context_parallel_size: 2, context_parallel_algo: megatron_cp_algo, micro_batch_size: 4}
rl_config: {use_dynamic_bsz: true, update_max_packing_token_size: 4096, ref_max_packing_token_size: 16384}
)")
                                         .yaml,
                                     "imported");
  EXPECT_EQ(config.mesh.cp, 2);
  EXPECT_EQ(config.micro_batch.max_tokens, 4096);
  EXPECT_EQ(config.profile("update"), config.profile("")) << "the job's own settings are those of the update";
  EXPECT_EQ(config.profile("ref").micro_batch.max_tokens, 16384);
  EXPECT_EQ(config.profile("ref").loss.micro_batches, Reduction::mean);
}

TEST(ImportMindSpeed, a_stage_without_a_cap_is_told_of_and_does_not_take_that_of_another) {
  const ImportedConfig config = imported(R"(
actor_config: {micro_batch_size: 2}
rl_config: {use_dynamic_bsz: true, update_max_packing_token_size: 4096}
)");
  EXPECT_EQ(setting(config, "profiles.update.micro_batch.max_tokens"), "4096");
  EXPECT_EQ(setting(config, "profiles.ref.micro_batch.max_tokens"), "8192");
  EXPECT_THAT(test::missing(config), testing::Contains("rl_config.max_packing_token_size -> "
                                                       "profiles.ref.micro_batch.max_tokens: 8192"));
  EXPECT_THAT(config.yaml, HasSubstr("# not found: Evenkeel's default"));
}

TEST(ImportMindSpeed, dp_batch_balance_is_balanced_or_left_in_source_order) {
  const std::string key = "rl_config.use_dp_batch_balance";
  EXPECT_EQ(outcomes(imported("rl_config:\n  use_dp_batch_balance: true\n")),
            (Outcomes{{key, "balance.algorithm: auto"}}));
  EXPECT_EQ(outcomes(imported("rl_config:\n  use_dp_batch_balance: false\n")),
            (Outcomes{{key, "balance.algorithm: none"}}));
}

TEST(ImportMindSpeed, one_packing_size_is_that_of_all_stages_that_have_none_of_their_own) {
  const ImportedConfig config = imported(R"(
rl_config:
  use_dynamic_bsz: true
  max_packing_token_size: 4096
  dynamic_max_batch_size: 4
  ref_max_packing_token_size: 12288
)");
  EXPECT_EQ(setting(config, "micro_batch.max_tokens"), "4096");
  EXPECT_EQ(setting(config, "profiles.actor.micro_batch.max_tokens"), "4096");
  EXPECT_EQ(setting(config, "profiles.ref.micro_batch.max_tokens"), "12288");
  EXPECT_EQ(setting(config, "profiles.ref.micro_batch.max_samples"), "4");
}

TEST(ImportMindSpeed, the_plain_split_becomes_fixed_micro_batches) {
  const ImportedConfig config = imported(R"(
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
)");
  EXPECT_EQ(setting(config, "micro_batch.mode"), "fixed");
  EXPECT_EQ(setting(config, "micro_batch.size"), "2");
  EXPECT_EQ(setting(config, "micro_batch.max_tokens"), "2147483647") << "the plain split has no cap";
  EXPECT_EQ(setting(config, "micro_batch.shuffle"), "true");
  EXPECT_EQ(setting(config, "profiles.actor.micro_batch.size"), "16");
  EXPECT_EQ(setting(config, "profiles.actor.micro_batch.shuffle"), "false");
  EXPECT_EQ(setting(config, "profiles.ref.micro_batch.size"), "4");
  EXPECT_EQ(outcome(config, "rl_config.use_remove_padding"), "-");
  EXPECT_EQ(outcome(config, "rl_config.max_packing_token_size"),
            "unused: has no effect when micro_batch.mode is fixed");
}

TEST(ImportMindSpeed, packed_micro_batches_are_not_shuffled) {
  const ImportedConfig shuffled = imported(dynamic_batch_size + "  shuffle_mini_batch: true\n");
  EXPECT_EQ(outcome(shuffled, "rl_config.shuffle_mini_batch"),
            "unused: has no effect when micro_batch.mode is packed");
  const ImportedConfig kept = imported(dynamic_batch_size + "  shuffle_mini_batch: false\n");
  EXPECT_EQ(setting(kept, "micro_batch.shuffle"), "false");
}

TEST(ImportMindSpeed, context_parallelism_is_contiguous_unless_it_is_a_ring) {
  const std::string sizes = "actor_config:\n  tensor_model_parallel_size: 4\n  context_parallel_size: 2\n";
  const ImportedConfig ulysses = imported(sizes);
  EXPECT_EQ(setting(ulysses, "mesh.tp"), "4");
  EXPECT_EQ(setting(ulysses, "mesh.cp"), "2");
  EXPECT_EQ(setting(ulysses, "pack.cp_layout"), "contiguous");
  const ImportedConfig ring = imported(sizes + "  context_parallel_algo: megatron_cp_algo\n");
  EXPECT_EQ(setting(ring, "pack.cp_layout"), "zigzag");
  const ImportedConfig hybrid = imported(sizes + "  context_parallel_algo: hybrid_cp_algo\n");
  EXPECT_EQ(setting(hybrid, "pack.cp_layout"), "(not set)");
  EXPECT_THAT(outcome(hybrid, "actor_config.context_parallel_algo"), HasSubstr("unused: no layout"));
}

TEST(ImportMindSpeed, a_mesh_of_another_model_is_named_when_it_differs) {
  const ImportedConfig config = imported(R"(
actor_config: {tensor_model_parallel_size: 4, pipeline_model_parallel_size: 2}
ref_config: {tensor_model_parallel_size: 4, pipeline_model_parallel_size: 4}
)");
  EXPECT_EQ(outcome(config, "ref_config.tensor_model_parallel_size"), "-");
  EXPECT_EQ(outcome(config, "ref_config.pipeline_model_parallel_size"),
            "unused: one job has one value, that of actor_config.pipeline_model_parallel_size");
}

TEST(ImportMindSpeed, batches_count_samples_where_mindspeed_counts_prompts) {
  const ImportedConfig config = imported(R"(
megatron_training: {global_batch_size: 64, seed: 3, no_shuffle: false}
rl_config: {n_samples_per_prompt: 16, mini_batch_size: 24, epochs: 1, token_level_loss: false}
)");
  EXPECT_EQ(setting(config, "batch.global_batch"), "1024");
  EXPECT_EQ(setting(config, "batch.mini_batches"), "3");
  EXPECT_THAT(test::note_of(config, "rl_config.mini_batch_size"), HasSubstr("differ by one sample"));
  EXPECT_EQ(setting(config, "batch.seed"), "3");
  EXPECT_EQ(setting(config, "batch.shuffle"), "true");
  EXPECT_EQ(setting(config, "loss.aggregation"), "seq-mean-token-mean");
  EXPECT_THAT(outcome(config, "rl_config.epochs"), HasSubstr("unused: passes over a step"));
}

TEST(ImportMindSpeed, the_preset_asks_for_its_own_partitions) {
  ImportSettings options;
  options.preset = true;
  const ImportedConfig config = imported(dynamic_batch_size, options);
  EXPECT_EQ(setting(config, "balance.preset"), "mindspeed-rl");
  EXPECT_EQ(setting(config, "balance.algorithm"), "none") << "it balances over DP ranks only when asked to";
  const ImportedConfig balanced = imported(dynamic_batch_size + "  use_dp_batch_balance: true\n", options);
  EXPECT_EQ(setting(balanced, "balance.algorithm"), "auto");
  EXPECT_EQ(setting(imported(dynamic_batch_size), "balance.preset"), "(not set)");
  EXPECT_EQ(setting(imported(dynamic_batch_size), "balance.algorithm"), "(not set)");
}

TEST(ImportMindSpeed, what_is_always_so_is_named_when_it_is_switched_off) {
  const ImportedConfig config = imported(R"(
megatron_training: {reset_position_ids: false, variable_seq_lengths: true}
rl_config: {use_remove_padding: false}
)");
  EXPECT_EQ(outcome(config, "megatron_training.reset_position_ids"),
            "unused: always so: positions start at 0 in every sequence");
  EXPECT_EQ(outcome(config, "rl_config.use_remove_padding"),
            "unused: Evenkeel packs: padding is never computed on");
}

TEST(ImportMindSpeed, the_kind_of_job_says_how_losses_are_summed_up) {
  const auto loss_of = [](const std::string& stage, const std::string& rest) {
    return setting(imported("megatron_training: {stage: " + stage + ", global_batch_size: 8}\n" + rest),
                   "loss.aggregation");
  };
  EXPECT_EQ(loss_of("ray_grpo", "rl_config: {mini_batch_size: 8}"), "token-mean");
  EXPECT_EQ(loss_of("ray_ppo", "rl_config: {token_level_loss: false}"), "token-mean") << "only DAPO reads it";
  EXPECT_EQ(loss_of("ray_dapo", "rl_config: {token_level_loss: false}"), "seq-mean-token-mean");
  EXPECT_EQ(loss_of("ray_dapo", "rl_config: {mini_batch_size: 8}"), "(not set)");
}

TEST(ImportMindSpeed, virtual_stages_follow_from_the_layers_of_the_model) {
  const std::string actor =
      "actor_config: {model: small, pipeline_model_parallel_size: 4, num_layers_per_virtual_pipeline_stage: "
      "2}\n";
  const ImportedConfig config = imported(actor + "model: {small: {num_layers: 32}, large: {num_layers: 64}}");
  EXPECT_EQ(setting(config, "mesh.vpp"), "4");
  EXPECT_EQ(outcome(config, "model.small.num_layers"), "mesh.vpp: 4");
  EXPECT_THAT(test::missing(imported(actor)),
              testing::Contains("actor_config.num_layers_per_virtual_pipeline_stage -> mesh.vpp: 1"));
}

}  // namespace
}  // namespace evenkeel
