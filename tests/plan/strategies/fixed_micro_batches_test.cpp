#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/id_range.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "support/made_up_table.hpp"
#include "support/strategies.hpp"

namespace evenkeel {
namespace {

using testing_support::use;

using testing::ElementsAre;
using testing_support::table_of;

std::vector<std::vector<std::int64_t>> split(const LengthTable& table, std::int64_t size, std::int64_t cap,
                                             std::optional<std::int64_t> max_samples = std::nullopt) {
  PlanSettings settings;
  settings.strategy = FixedSettings{};
  use<FixedSettings>(settings).size = size;
  settings.micro_batch.max_tokens = cap;
  settings.micro_batch.max_samples = max_samples;
  const DpRankPlan plan = plan_step({table, settings}).ranks.front();
  std::vector<std::vector<std::int64_t>> groups;
  for (const MicroBatchPlan& m : plan.micro_batches) groups.push_back(numbers_of(m.entries));
  return groups;
}

TEST(FixedMicroBatches, have_size_samples_each_except_the_last) {
  EXPECT_THAT(split(table_of({5, 1, 4, 4, 2}), 2, 8),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4)));
}

TEST(FixedMicroBatches, end_early_to_keep_the_cap) {
  EXPECT_THAT(split(table_of({5, 1, 4, 4, 2}), 2, 7),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2), ElementsAre(3, 4)));
}

TEST(FixedMicroBatches, never_hold_more_than_max_samples) {
  EXPECT_THAT(split(table_of({1, 1, 1}), 3, 100, 2), ElementsAre(ElementsAre(0, 1), ElementsAre(2)));
}

TEST(FixedMicroBatches, without_samples_are_one_empty_micro_batch) {
  EXPECT_THAT(split({}, 4, 100), ElementsAre(ElementsAre()));
}

// In order, the 5 and the 4 leave the 1 alone; with packing, two micro-batches are enough.
TEST(FixedMicroBatches, have_the_lower_bound_of_packing) {
  PlanSettings settings;
  settings.strategy = FixedSettings{};
  use<FixedSettings>(settings).size = 2;
  settings.micro_batch.max_tokens = 6;
  const DpRankPlan plan = plan_step({table_of({5, 4, 1, 2}), settings}).ranks.front();
  EXPECT_EQ(plan.needed, 3);
  EXPECT_EQ(plan.lower_bound, 2);
}

// Groups of 3, 3 and 1 samples with two tokens each, one of which is in the prompt.
TEST(FixedMicroBatches, count_samples_of_shared_prompts_and_keep_groups_together) {
  std::vector<LengthEntry> entries;
  for (const std::uint64_t uid : {7U, 7U, 7U, 8U, 8U, 8U, 9U}) {
    const auto id = static_cast<int>(entries.size());
    entries.push_back({{SampleId{id}, uid, 1, 1}, WorldRank{0}, id});
  }
  PlanSettings settings;
  settings.sharing = PrefixSharing::prompts;
  settings.strategy = FixedSettings{};
  const auto split_by = [&](std::int64_t size) {
    use<FixedSettings>(settings).size = size;
    std::vector<std::vector<std::int64_t>> groups;
    const StepPlan plan = plan_step({LengthTable(entries), settings});
    for (const MicroBatchPlan& m : plan.ranks.front().micro_batches) groups.push_back(numbers_of(m.entries));
    return groups;
  };
  EXPECT_THAT(split_by(4), ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 4, 5, 6)));
  EXPECT_THAT(split_by(2),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2), ElementsAre(3, 4), ElementsAre(5, 6)));
}

}  // namespace
}  // namespace evenkeel
