// What does not go together: each line of the table refuses, with its reason, and stands in the pages of
// keys.
#include "plan/settings/requirements.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "config/refusal.hpp"
#include "config/schema.hpp"

namespace evenkeel {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// A configuration that breaks one requirement and no other, for each in the table's order.
std::vector<std::string> broken_configurations() {
  std::vector<std::string> all;
  const auto add = [&](const std::string& feature, const std::vector<std::string>& others) {
    for (const std::string& other : others)
      all.push_back("{" + feature + (other.empty() ? "" : ", " + other) + "}");
  };
  const std::string fields = "fields: {x: ";
  add("mesh: {max_cp: 2}", {""});

  const std::string per_rank = "micro_batch: {max_tokens_per_rank: 64";
  add("mesh: {cp: flexible}",
      {"", per_rank + ", mode: fixed}", per_rank + "}, balance: {preset: verl}",
       per_rank + "}, balance: {algorithm: lpt}", per_rank + "}, balance: {equal_count: true}",
       per_rank + "}, balance: {refine: false}",
       per_rank + "}, batch: {mini_batches: 2, keep_mini_batch: false}",
       per_rank + ", packing: best-fit-decreasing}", per_rank + ", count: fastest}",
       per_rank + "}, pack: {align: 64}"});
  const std::string tree = "balance: {strategy: hierarchical";
  add("mesh: {cp: flexible, pp: 2}", {per_rank + "}, " + tree + "}"});
  add("mesh: {cp: flexible}",
      {per_rank + ", min_count: 2}, " + tree + "}", per_rank + "}, " + tree + ", meet: micro-batch}",
       per_rank + "}, loss: {aggregation: mindspeed-rl}"});

  add("micro_batch: {mode: fixed}, balance: {strategy: grid}", {""});
  for (const std::string other : {"preset: roll", "algorithm: none", "equal_count: true"})
    add("balance: {strategy: grid, " + other + "}", {""});
  add("balance: {strategy: grid}", {"batch: {mini_batches: 2, keep_mini_batch: false}"});

  for (const std::string other :
       {"strategy: grid", "preset: verl", "algorithm: lpt", "refine: false", "equal_count: true"})
    add("balance: {speeds: [1, 1], " + other + "}", {""});
  add("balance: {speeds: [1, 1]}", {"micro_batch: {mode: padded}"});

  const std::string encodes = "balance: {cost: {model: tokens, encoder: {field: pixels, linear: 1}}";
  add(encodes + ", strategy: grid}", {""});
  add(encodes + "}", {"mesh: {cp: flexible}, " + per_rank + "}"});
  for (const std::string other :
       {"preset: verl", "algorithm: lpt", "refine: false", "equal_count: true", "speeds: [1, 1]"})
    add(encodes + ", " + other + "}", {""});
  add(encodes + "}", {"micro_batch: {mode: padded}"});

  const std::string of_field = "balance: {cost: {field: work}";
  add(of_field + ", preset: verl}", {""});
  add("balance: {cost: measured, preset: verl}", {""});

  for (const std::string way : {"packing: best-fit-decreasing", "count: fastest"}) {
    add("micro_batch: {" + way + ", mode: fixed}", {""});
    add("micro_batch: {" + way + "}", {"balance: {preset: verl}", "balance: {strategy: grid}"});
  }
  add("micro_batch: {count: fastest, packing: best-fit-decreasing}", {""});

  add("micro_batch: {order: schedule}", {"balance: {preset: verl}"});

  const std::string caps_rows = "micro_batch: {max_rows: {patches: 8}}";
  add(caps_rows, {"balance: {preset: verl}"});

  add("micro_batch: {shapes: 8, mode: padded}", {""});
  add("micro_batch: {shapes: 8}", {"balance: {preset: verl}", "prefix: {share: true}"});

  add("prefix: {share: true}", {"micro_batch: {mode: padded}", "balance: {preset: verl}"});

  add("prefix: {max_path_tokens: 8}", {""});

  const std::string dfs = "balance: {meet: step}, prefix: {share: tree, schedule: dfs";
  add("balance: {meet: step}, prefix: {schedule: dfs}", {""});
  add("prefix: {share: tree, schedule: dfs}", {""});
  add(dfs + "}", {"mesh: {pp: 2}", "pack: {predict_ahead: 1}"});
  add("prefix: {share: tree, max_kept_tokens: 8}", {""});
  add(dfs + ", max_kept_tokens: 8}", {"mesh: {cp: 2}"});

  const std::string delays = "batch: {delay_outliers: 4, outlier_length: 512, outlier_companions: 2}";
  const std::string reads = "source: {kind: synthetic}";
  add(reads, {"batch: {delay_outliers: 4}", "batch: {delay_outliers: 4, outlier_length: 512}"});
  add(delays, {""});
  add(reads + ", " + delays,
      {"mesh: {cp: flexible}, " + per_rank + "}", "prefix: {share: tree}", "balance: {cost: measured}",
       encodes + "}", of_field + "}", caps_rows, "balance: {speeds: [1, 0.5]}"});

  add("source: {kind: stream, path: 'http://127.0.0.1:1', epochs: 2}", {""});
  add("source: {kind: stream, path: 'http://127.0.0.1:1'}",
      {"batch: {epochs: 2}", "batch: {shuffle: true}", "batch: {drop_last: true}", delays,
       "batch: {empty: error}", "batch: {without_loss: error}"});

  add(fields + "{layers: stage, stage: all}}", {""});
  add(fields + "{hand_out: narrow}}", {""});
  add(fields + "{cut_by: y, share: equal}}", {""});
  add(fields + "{spread_pads: 8, wire: narrow, hand_out: narrow}}", {""});
  add(fields + "{read_as: text}}", {reads});
  return all;
}

/// The key that a refusal names.
std::string refusing_key(const Requirement& requirement) {
  std::string key(requirement.need.value.empty() ? requirement.need.key : requirement.feature.key);
  return key.starts_with("field.") ? "fields.x." + key.substr(6) : key;
}

TEST(Requirements, refuse_what_does_not_go_together_with_the_key_the_reason_and_what_to_set) {
  const std::vector<std::string> broken = broken_configurations();
  ASSERT_EQ(broken.size(), requirements().size());
  for (std::size_t i = 0; i < broken.size(); ++i) {
    const Requirement& requirement = requirements()[i];
    const std::string message = test::refusal(broken[i]);
    EXPECT_THAT(message, StartsWith("job.yaml: " + refusing_key(requirement) + ": ")) << broken[i];
    EXPECT_THAT(message, HasSubstr(", since " + std::string(requirement.why) + ". Set ")) << broken[i];
  }
}

TEST(Requirements, no_segment_is_kept_under_a_cap_below_its_alignment) {
  EXPECT_EQ(
      test::refusal("{balance: {meet: step}, pack: {align: 16}, "
                    "prefix: {share: tree, schedule: dfs, max_kept_tokens: 8}}"),
      "job.yaml: prefix.max_kept_tokens: is 8, below the alignment of one segment, 16 tokens. Raise it, or "
      "lower pack.align, tp or pack.align_lcm");
}

TEST(Requirements, say_what_is_needed_of_which_key) {
  EXPECT_EQ(
      test::refusal("balance: {strategy: grid, equal_count: true}"),
      "job.yaml: balance.strategy: grid needs free numbers of samples, since a grid balances micro-batches, "
      "whatever their numbers of samples. Set balance.equal_count: false, or balance.strategy: "
      "hierarchical");
  EXPECT_EQ(test::refusal("mesh: {cp: flexible}"),
            "job.yaml: micro_batch.max_tokens_per_rank: is not set, and mesh.cp: flexible needs it, since "
            "the cap of a group is this times its ranks. Set it instead of "
            "micro_batch.max_tokens");
  EXPECT_EQ(test::refusal("profiles: {update: {balance: {speeds: [1, 2], refine: false}}}"),
            "job.yaml: profiles.update.balance.speeds: needs refinement, since refinement is a part of "
            "balancing by speed. Set balance.refine: true, or balance.speeds: equal");
}

TEST(Requirements, are_about_keys_that_there_are_and_leave_the_defaults_alone) {
  std::set<std::string> keys;
  for (const ConfigKey& key : config_keys()) keys.insert(key.path);
  for (const auto& [feature, need, why] : requirements()) {
    EXPECT_TRUE(keys.contains(std::string(feature.key))) << feature.key;
    EXPECT_TRUE(keys.contains(std::string(need.key))) << need.key;
    EXPECT_FALSE(feature.is_used({})) << feature.key;
  }
}

TEST(Requirements, are_told_with_the_key_and_listed_on_the_page_with_their_reasons) {
  const std::string page = config_reference_markdown();
  for (const auto& [feature, need, why] : requirements()) {
    EXPECT_THAT(config_schema_text(feature.key), HasSubstr(" " + std::string(need.key))) << feature.key;
    EXPECT_THAT(page, HasSubstr("| " + std::string(why) + " |\n"));
  }
  EXPECT_THAT(config_schema_text("micro_batch.packing"),
              HasSubstr("If it is set, it needs micro_batch.mode: packed; balance.preset: none; "
                        "balance.strategy: hierarchical."));
}

}  // namespace
}  // namespace evenkeel
