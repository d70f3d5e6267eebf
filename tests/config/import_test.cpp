#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "evenkeel/base/error.hpp"
#include "import_fixtures.hpp"
#include "support/error_message.hpp"

namespace evenkeel {
namespace {

using test::imported;
using test::outcome;
using testing::HasSubstr;
using testing_support::message_of;

std::string error_of(const std::string& yaml, ImportSettings options = {}) {
  return message_of([&] { static_cast<void>(import_config(yaml, "job.yaml", options)); });
}

TEST(ConfigImport, the_system_is_told_from_the_keys) {
  EXPECT_EQ(imported("rl_config: {use_dynamic_bsz: true}").system, ForeignSystem::mindspeed_rl);
  EXPECT_EQ(imported("reference: {use_dynamic_batching_in_infer: true}").system, ForeignSystem::roll);
  EXPECT_EQ(imported("rollout_batch_size: 64").system, ForeignSystem::roll);
  EXPECT_EQ(imported("actor_rollout_ref: {rollout: {n: 4}}\ntrainer: {balance_batch: true}").system,
            ForeignSystem::verl);
}

TEST(ConfigImport, the_caller_may_say_whose_file_it_is) {
  ImportSettings options;
  options.from = ForeignSystem::verl;
  const ImportedConfig config = imported("trainer: {total_epochs: 3}", options);
  EXPECT_EQ(config.system, ForeignSystem::verl);
  EXPECT_EQ(test::setting(config, "batch.epochs"), "3");
}

TEST(ConfigImport, no_key_is_dropped_and_each_is_told_of_once_in_the_order_of_the_file) {
  const ImportedConfig config = imported(R"(
rl_config: {zeta: 1, use_dynamic_bsz: true, alpha: [1, 2], empty: {}, list: [{a: 1}, {b: 2}]}
megatron_training: {bf16: true}
)");
  std::vector<std::string> unused;
  for (const ImportedKey& key : config.unused) unused.push_back(key.foreign + " = " + key.value);
  EXPECT_THAT(unused, testing::ElementsAre("rl_config.zeta = 1", "rl_config.alpha = [1, 2]",
                                           "rl_config.empty = {}", "rl_config.list[0].a = 1",
                                           "rl_config.list[1].b = 2", "megatron_training.bf16 = true"));
  EXPECT_EQ(config.keys.size(), 1U);
  EXPECT_EQ(outcome(config, "rl_config.zeta"), "unused: unknown here");
}

TEST(ConfigImport, a_slip_of_the_pen_is_recognised) {
  const ImportedConfig config = imported("rl_config: {use_dynamic_bzs: true, use_dp_batch_balance: true}");
  EXPECT_EQ(outcome(config, "rl_config.use_dynamic_bzs"),
            "unused: unknown here; did you mean rl_config.use_dynamic_bsz?");
}

TEST(ConfigImport, a_file_of_nobody_is_refused) {
  EXPECT_THAT(error_of("services: {web: {image: nginx}}"),
              HasSubstr("no configuration of MindSpeed-RL, ROLL or verl"));
  EXPECT_THAT(error_of("rl_config: {a: 1}\nactor_train: {b: 1}"), HasSubstr("several systems"));
  EXPECT_THAT(error_of("actor_infer: {generating_args: {top_k: 1}}"), HasSubstr("none of its 1 keys"));
}

TEST(ConfigImport, what_is_no_map_is_refused) {
  for (const char* text : {"", "just words", "- a\n- b", "# only a comment"}) {
    EXPECT_THAT(error_of(text), HasSubstr("expected a map of sections")) << text;
  }
}

TEST(ConfigImport, malformed_yaml_is_refused_with_its_line) {
  EXPECT_THAT(error_of("rl_config:\n  use_dynamic_bsz: [true\n"), HasSubstr("job.yaml:"));
  EXPECT_THAT(error_of("rl_config:\n  use_dynamic_bsz: [true\n"), HasSubstr("malformed YAML"));
  EXPECT_THAT(error_of("rl_config: {a: 1}\n---\nrl_config: {a: 1}\n"),
              HasSubstr("expected one YAML document"));
  EXPECT_THAT(error_of("rl_config:\n  seed: 1\n  seed: 2\n"),
              HasSubstr("job.yaml:3: rl_config.seed: the key is given"));
}

TEST(ConfigImport, a_value_of_the_wrong_type_or_range_is_refused_with_its_line) {
  EXPECT_THAT(error_of("rl_config:\n  use_dynamic_bsz: maybe\n"),
              HasSubstr("job.yaml:2: rl_config.use_dynamic_bsz: expected true or false, found maybe"));
  EXPECT_THAT(error_of("rl_config: {use_dynamic_bsz: true, max_packing_token_size: lots}"),
              HasSubstr("expected an integer, found lots"));
  EXPECT_THAT(error_of("rl_config: {use_dynamic_bsz: true, max_packing_token_size: 0}"),
              HasSubstr("out of range"));
  EXPECT_THAT(error_of("rl_config: {use_dynamic_bsz: true, max_packing_token_size: 9999999999}"),
              HasSubstr("out of range"));
  EXPECT_THAT(
      error_of("actor_train: {use_sequence_packing: true, sequence_packing_args: {algorithm: magic}}"),
      HasSubstr("expected none or load_balance, found magic"));
  EXPECT_THAT(error_of("rollout_batch_size: 2147483647\nnum_return_sequences_in_group: 2"),
              HasSubstr("more samples a step"));
}

TEST(ConfigImport, references_in_a_circle_lead_nowhere) {
  const ImportedConfig config = imported(R"(
trainer: {balance_batch: true}
data: {train_batch_size: "${data.seed}", seed: "${data.train_batch_size}"}
)");
  EXPECT_THAT(outcome(config, "data.seed"), HasSubstr("unused: refers to"));
}

TEST(ConfigImport, hostile_nesting_is_refused) {
  std::string bombs = "a0: &a0 [{x: 1}, {x: 1}]\n";
  for (int i = 1; i < 40; ++i) {
    const std::string below = "*a" + std::to_string(i - 1);
    bombs +=
        "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [{x: " + below + "}, {x: " + below + "}]\n";
  }
  EXPECT_THAT(error_of(bombs), HasSubstr("aliases followed"));
}

TEST(ConfigImport, python_numbers_may_have_underscores) {
  EXPECT_EQ(test::setting(imported("rollout_batch_size: 1_024"), "batch.global_batch"), "1024");
}

/// A file of some known keys with values right and wrong.
rc::Gen<std::map<std::string, std::string>> arbitrary_files() {
  const std::vector<std::string> keys{"megatron_training.global_batch_size",
                                      "rl_config.n_samples_per_prompt",
                                      "rl_config.mini_batch_size",
                                      "rl_config.use_dynamic_bsz",
                                      "rl_config.use_remove_padding",
                                      "rl_config.max_packing_token_size",
                                      "rl_config.ref_dynamic_max_batch_size",
                                      "rl_config.shuffle_mini_batch",
                                      "rl_config.gamma",
                                      "actor_config.micro_batch_size",
                                      "actor_config.context_parallel_size",
                                      "actor_config.context_parallel_algo"};
  const std::vector<std::string> values{"true",
                                        "false",
                                        "null",
                                        "0",
                                        "1",
                                        "2",
                                        "64",
                                        "8192",
                                        "2147483647",
                                        "-3",
                                        "ulysses_cp_algo",
                                        "[1, 2]",
                                        "{}",
                                        "'${rl_config.mini_batch_size}'",
                                        "''"};
  return rc::gen::container<std::map<std::string, std::string>>(rc::gen::elementOf(keys),
                                                                rc::gen::elementOf(values));
}

RC_GTEST_PROP(ConfigImport, any_file_is_imported_whole_or_refused, ()) {
  const auto file = *arbitrary_files();
  std::string yaml = "{";
  for (const auto& [key, value] : file) yaml += key + ": " + value + ",";
  yaml += "}";
  try {
    ImportSettings options;
    options.from = ForeignSystem::mindspeed_rl;
    const ImportedConfig config = import_config(yaml, "job.yaml", options);
    RC_ASSERT(config.keys.size() + config.unused.size() == file.size());
    RC_ASSERT(YAML::Load(config.yaml).IsDefined());
  } catch (const ConfigError& error) {
    RC_ASSERT(!error.report().where.empty());
  }
}

TEST(ConfigImport, the_table_has_a_row_a_key_and_then_those_not_used) {
  const ImportedConfig config = imported("rl_config: {use_dp_batch_balance: true, gamma: 1.0}");
  EXPECT_THAT(import_table(config),
              testing::StartsWith("mindspeed-rl                    value  became                   note\n"
                                  "rl_config.use_dp_batch_balance  true   balance.algorithm: auto\n"
                                  "\n"
                                  "not used         value  why\n"
                                  "rl_config.gamma  1.0    the RL algorithm\n"
                                  "\n"
                                  "to be set: source.kind"));
}

TEST(ConfigImport, systems_have_the_words_of_the_preset) {
  for (const auto system : {ForeignSystem::mindspeed_rl, ForeignSystem::roll, ForeignSystem::verl}) {
    EXPECT_EQ(foreign_system(to_string(system)), system);
  }
  EXPECT_EQ(foreign_system("slime"), std::nullopt);
}

}  // namespace
}  // namespace evenkeel
