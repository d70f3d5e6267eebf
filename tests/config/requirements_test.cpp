// Settings that cannot be combined: each line of the table rejects a configuration with its reason, and is
// documented with the keys.
#include "plan/settings/requirements.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "config/refusal.hpp"
#include "config/schema.hpp"

namespace evenkeel {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Returns a configuration that violates exactly one requirement, for each one in the table's order.
std::vector<std::string> broken_configurations() {
  std::vector<std::string> all;
  const auto add = [&](const std::string& feature, const std::vector<std::string>& others) {
    for (const std::string& other : others)
      all.push_back("{" + feature + (other.empty() ? "" : ", " + other) + "}");
  };
  const std::string fields = "fields: {x: ";
  add("mesh: {max_cp: 2}", {""});

  const std::string per_rank = "micro_batch: {max_tokens_per_rank: 64";
  const std::string tree = "balance: {strategy: hierarchical";
  add("mesh: {cp: flexible}",
      {"", per_rank + ", min_count: 2}, " + tree + "}", per_rank + "}, " + tree + ", meet: micro-batch}"});

  add("micro_batch: {equal_counts: auto}", {""});

  add("prefix: {max_path_tokens: 8}", {""});

  const std::string dfs = "balance: {meet: step}, prefix: {share: tree, schedule: dfs";
  add("balance: {meet: step}, prefix: {schedule: dfs}", {""});
  add("prefix: {share: tree, schedule: dfs}", {""});
  add(dfs + "}", {"mesh: {pp: 2}", "pack: {predict_ahead: 1}"});
  add("prefix: {share: tree, max_kept_tokens: 8}", {""});
  add(dfs + ", max_kept_tokens: 8}", {"mesh: {cp: 2}"});

  const std::string delays = "batch: {delay_outliers: 4, outlier_length: 512, outliers_per_step: 2}";
  const std::string reads = "source: {kind: synthetic}";
  add(reads, {"batch: {delay_outliers: 4}", "batch: {delay_outliers: 4, outlier_length: 512}"});
  add(delays, {""});
  add("source: {kind: stream, path: 'http://127.0.0.1:1', epochs: 2}", {""});
  add("source: {kind: stream, path: 'http://127.0.0.1:1'}",
      {"batch: {epochs: 2}", "batch: {shuffle: true}", "batch: {drop_last: true}", delays,
       "batch: {empty: error}", "batch: {without_loss: error}"});

  add(fields + "{layers: stage, stage: all}}", {""});
  add(fields + "{dtype: narrow}}", {""});
  add(fields + "{cut_by: y, share: equal}}", {""});
  add(fields + "{spread_pads: 8, wire_dtype: narrow, dtype: narrow}}", {""});
  add(fields + "{read_as: text}}", {reads});
  return all;
}

/// Returns the key that an error names.
std::string refusing_key(const Requirement& requirement) {
  std::string key(requirement.need.value.empty() ? requirement.need.key : requirement.feature.key);
  return key.starts_with("field.") ? "fields.x." + key.substr(6) : key;
}

TEST(Requirements, reject_incompatible_settings_with_key_reason_and_remedy) {
  const std::vector<std::string> broken = broken_configurations();
  ASSERT_EQ(broken.size(), requirements().size());
  for (std::size_t i = 0; i < broken.size(); ++i) {
    const Requirement& requirement = requirements()[i];
    const std::string message = test::refusal(broken[i]);
    EXPECT_THAT(message, StartsWith("job.yaml: " + refusing_key(requirement) + ": ")) << broken[i];
    EXPECT_THAT(message, HasSubstr(", since " + std::string(requirement.why) + ". Set ")) << broken[i];
  }
}

/// Overrides that enable a feature listed in the exclusions, with everything it requires, by its key and
/// value.
std::vector<std::string> overrides_for(const Feature& feature) {
  static const std::map<std::string, std::vector<std::string>> all{
      {"mesh.cp flexible", {"mesh.cp=flexible", "micro_batch.max_tokens_per_rank=64", "balance.meet=step"}},
      {"balance.strategy grid", {"balance.strategy=grid"}},
      {"balance.preset ", {"balance.preset=verl"}},
      {"micro_batch.mode padded", {"micro_batch.mode=padded"}},
      {"micro_batch.mode fixed", {"micro_batch.mode=fixed"}},
      {"balance.algorithm ", {"balance.algorithm=lpt"}},
      {"balance.equal_count true", {"balance.equal_count=true"}},
      {"balance.refine false", {"balance.refine=false"}},
      {"batch.keep_mini_batch false with batch.mini_batches above 1",
       {"batch.mini_batches=2", "batch.keep_mini_batch=false"}},
      {"pack.align ", {"pack.align=64"}},
      {"pack.deliver samples", {"pack.deliver=samples"}},
      {"balance.speeds ", {"balance.speeds=[1, 1]"}},
      {"balance.cost .encoder", {"balance.cost={model: tokens, encoder: {field: pixels, linear: 1}}"}},
      {"balance.cost .field", {"balance.cost={field: work}"}},
      {"balance.cost measured", {"balance.cost=measured"}},
      {"micro_batch.packing ", {"micro_batch.packing=best-fit-decreasing"}},
      {"micro_batch.count fastest", {"micro_batch.count=fastest"}},
      {"micro_batch.equal_counts auto", {"balance.meet=step", "micro_batch.equal_counts=auto"}},
      {"micro_batch.order schedule", {"micro_batch.order=schedule"}},
      {"micro_batch.max_rows ", {"micro_batch.max_rows={patches: 8}"}},
      {"micro_batch.shapes ", {"micro_batch.shapes=8"}},
      {"prefix.share true or tree", {"prefix.share=true"}},
      {"loss.aggregation mindspeed-rl", {"loss.aggregation=mindspeed-rl"}},
      {"batch.delay_outliers ",
       {"source.kind=synthetic", "batch.delay_outliers=4", "batch.outlier_length=512",
        "batch.outliers_per_step=2"}},
  };
  return all.at(std::string(feature.key) + " " + std::string(feature.value));
}

TEST(Exclusions, reject_excluded_settings_with_reason_and_remedy) {
  for (const auto& [feature, others, why] : exclusions()) {
    EXPECT_EQ(test::refusal("{}", overrides_for(feature)), "accepted") << feature.key;
    for (const Feature& other : others) {
      std::vector<std::string> overrides = overrides_for(feature);
      EXPECT_EQ(test::refusal("{}", overrides_for(other)), "accepted") << other.key;
      std::ranges::copy(overrides_for(other), std::back_inserter(overrides));
      const std::string message = test::refusal("{}", overrides);
      const std::string inner_key(other.value.starts_with('.') ? other.value : "");
      EXPECT_THAT(message, StartsWith("job.yaml: " + std::string(other.key) + inner_key + ": "));
      EXPECT_THAT(message, HasSubstr("cannot be combined with " + std::string(feature.key)));
      const bool is_removed = other.instead.starts_with("remove ");
      const std::string first =
          is_removed ? "R" + std::string(other.instead.substr(1)) : "Set " + std::string(other.instead);
      const bool is_set = is_removed && !feature.instead.starts_with("remove ");
      EXPECT_THAT(message, HasSubstr(", since " + std::string(why) + ". " + first + ", or " +
                                     (is_set ? "set " : "") + std::string(feature.instead)));
    }
  }
}

TEST(Requirements, a_cap_on_kept_rows_is_at_least_the_alignment) {
  EXPECT_EQ(
      test::refusal("{balance: {meet: step}, pack: {align: 16}, "
                    "prefix: {share: tree, schedule: dfs, max_kept_tokens: 8}}"),
      "job.yaml: prefix.max_kept_tokens: is 8, but segments are aligned to 16 tokens. Raise it to at least "
      "that, or lower the alignment (pack.align or, if that is auto, mesh.tp; pack.align_lcm)");
}

TEST(Requirements, name_the_key_and_the_required_value) {
  EXPECT_EQ(test::refusal("balance: {strategy: grid, equal_count: true}"),
            "job.yaml: balance.equal_count: true cannot be combined with balance.strategy: grid, since a "
            "grid packs the micro-batches of all DP ranks at once, with its own algorithm. Set "
            "balance.equal_count: false, or balance.strategy: hierarchical");
  EXPECT_EQ(
      test::refusal("mesh: {cp: flexible}"),
      "job.yaml: micro_batch.max_tokens_per_rank: is not set, but mesh.cp: flexible needs it, since the cap "
      "of a group is this number times the ranks of the group. Set it instead of micro_batch.max_tokens");
  EXPECT_EQ(test::refusal("profiles: {update: {balance: {speeds: [1, 2], refine: false}}}"),
            "job.yaml: profiles.update.balance.refine: false cannot be combined with balance.speeds, since "
            "balancing by speed has its own algorithm. Set balance.refine: true, or balance.speeds: equal");
}

TEST(Requirements, name_existing_keys_and_hold_for_the_defaults) {
  std::set<std::string> keys;
  for (const ConfigKey& key : config_keys()) keys.insert(key.path);
  for (const auto& [feature, need, why] : requirements()) {
    EXPECT_TRUE(keys.contains(std::string(feature.key))) << feature.key;
    EXPECT_TRUE(keys.contains(std::string(need.key))) << need.key;
    EXPECT_FALSE(feature.is_used({})) << feature.key;
  }
  for (const auto& [feature, others, why] : exclusions()) {
    EXPECT_TRUE(keys.contains(std::string(feature.key))) << feature.key;
    EXPECT_FALSE(feature.is_used({})) << feature.key;
    for (const Feature& other : others) {
      EXPECT_TRUE(keys.contains(std::string(other.key))) << other.key;
      EXPECT_FALSE(other.is_used({})) << other.key;
    }
  }
}

TEST(Requirements, are_shown_with_the_key_and_listed_on_the_page_with_reasons) {
  const std::string page = config_reference_markdown();
  for (const auto& [feature, need, why] : requirements()) {
    EXPECT_THAT(config_schema_text(feature.key), HasSubstr(" " + std::string(need.key))) << feature.key;
    EXPECT_THAT(page, HasSubstr("| " + std::string(why) + " |\n"));
  }
  for (const auto& [feature, others, why] : exclusions()) {
    EXPECT_THAT(page, HasSubstr("` | " + std::string(why) + " |\n"));
    for (const Feature& other : others)
      EXPECT_THAT(config_schema_text(other.key), HasSubstr(" " + std::string(feature.key))) << other.key;
  }
  EXPECT_THAT(config_schema_text("micro_batch.packing"),
              HasSubstr("If it is set, it cannot be combined with mesh.cp: flexible; balance.strategy: grid; "
                        "balance.preset; micro_batch.mode: padded; micro_batch.mode: fixed; "
                        "micro_batch.count: fastest."));
}

}  // namespace
}  // namespace evenkeel
