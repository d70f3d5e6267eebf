#include "evenkeel/plan/fixed_micro_batches.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/made_up_table.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing_support::table_of;

std::vector<std::vector<std::int64_t>> split(const LengthTable& table, std::int64_t size, std::int64_t cap,
                                             std::optional<std::int64_t> max_samples = std::nullopt) {
  PlanSettings settings;
  settings.micro_batch.mode = MicroBatchMode::fixed;
  settings.micro_batch.size = size;
  settings.micro_batch.max_tokens = cap;
  settings.micro_batch.max_samples = max_samples;
  std::vector<std::int64_t> entries;
  for (std::int64_t entry = 0; entry < table.size(); ++entry) entries.push_back(entry);
  std::vector<std::vector<std::int64_t>> groups;
  for (const MicroBatchPlan& m : fixed_micro_batches(table, entries, settings)) groups.push_back(m.entries);
  return groups;
}

TEST(FixedMicroBatches, take_size_samples_at_a_time_and_the_last_one_what_remains) {
  EXPECT_THAT(split(table_of({5, 1, 4, 4, 2}), 2, 8),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4)));
}

TEST(FixedMicroBatches, are_closed_early_where_the_cap_would_break) {
  EXPECT_THAT(split(table_of({5, 1, 4, 4, 2}), 2, 7),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2), ElementsAre(3, 4)));
}

TEST(FixedMicroBatches, never_hold_more_than_max_samples) {
  EXPECT_THAT(split(table_of({1, 1, 1}), 3, 100, 2), ElementsAre(ElementsAre(0, 1), ElementsAre(2)));
}

TEST(FixedMicroBatches, of_no_samples_are_none) {
  EXPECT_THAT(split({}, 4, 100), ElementsAre());
}

}  // namespace
}  // namespace evenkeel
