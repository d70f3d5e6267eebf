#include "cli/plan/sharing_comparison.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "evenkeel/pack/cp_layout.hpp"
#include "page/pass_figures.hpp"
#include "plan/branching_step.hpp"

namespace evenkeel::cli {
namespace {

using testing::ElementsAre;
using testing_support::any_branching_step;
using testing_support::branching_step;
using testing_support::BranchingStep;

PlanInput input_of(BranchingStep step) {
  return {std::move(step.table), std::move(step.trees)};
}

PlanSettings sharing_settings(int dp, std::int64_t cap) {
  PlanSettings settings;
  settings.dp = dp;
  settings.sharing = PrefixSharing::trees;
  settings.micro_batch.max_tokens = cap;
  settings.balance.meet = SyncPoint::step;
  settings.balance.cost = CostModel{2, 0};  // the work according to a model would replace a cost per token
  return settings;
}

std::vector<std::string> names_of(const std::vector<ComparedSharing>& ways) {
  std::vector<std::string> names;
  for (const ComparedSharing& way : ways) names.push_back(way.name);
  return names;
}

TEST(CompareSharing, counts_tokens_that_a_grid_repeats_for_equal_work) {
  const PlanInput input = input_of(branching_step({{7, {1, 2, 3}, 2}, {7, {1, 2, 4, 5}, 2}}));
  const std::vector<ComparedSharing> ways = compare_sharing(input, sharing_settings(2, 64));
  EXPECT_THAT(names_of(ways),
              ElementsAre("paths one by one", "prompts shared", "trees packed", "trees depth first"));
  for (std::size_t w = 1; w < ways.size(); ++w) {
    EXPECT_EQ(ways[w].tokens, 7) << ways[w].name;
    EXPECT_EQ(ways[w].repeated, (RepeatedTokens{0, 0, 0, 0, 2})) << ways[w].name;
    EXPECT_DOUBLE_EQ(ways[w].work, 7.0 / 5) << ways[w].name;
    EXPECT_DOUBLE_EQ(ways[w].end_once.value(), 4 / 2.5) << ways[w].name;
  }
}

TEST(CompareSharing, has_a_line_for_each_meeting_if_one_of_them_repeats_more) {
  // Without splitting, ranks that are synchronized once have 34 + 20 and 27 + 27 tokens, and those that are
  // synchronized at each micro-batch wait.
  std::vector<testing_support::BranchingSample> samples;
  for (std::int64_t leaf = 0; leaf < 33; ++leaf) samples.push_back({1, {1, 100 + leaf}});
  for (const std::int64_t length : {20, 27, 27})
    samples.push_back({samples.size(), testing_support::path(length, 0)});
  const std::vector<ComparedSharing> ways =
      compare_sharing(input_of(branching_step(samples)), sharing_settings(2, 40));
  EXPECT_THAT(names_of(ways), ElementsAre("paths one by one", "prompts shared", "trees packed, once",
                                          "trees packed, at each", "trees depth first"));
  EXPECT_EQ(ways.at(2).tokens, 34 + 20 + 27 + 27);
  EXPECT_EQ(ways.at(2).end_once, 1);
  EXPECT_EQ(ways.at(2).end_meeting, std::nullopt);
  EXPECT_EQ(ways.at(3).tokens, ways.at(2).tokens + 1) << "the root, on both ranks";
  EXPECT_EQ(ways.at(3).end_once, std::nullopt);
  EXPECT_LT(ways.at(3).end_meeting.value(), (34 + 27) / 54.0);
}

RC_GTEST_PROP(CompareSharing, has_figures_that_agree_with_each_other, ()) {
  BranchingStep step = any_branching_step();
  PlanSettings settings = sharing_settings(*rc::gen::inRange(1, 17), 1);
  settings.tp = *rc::gen::inRange(1, 4);
  const std::int64_t longest = std::ranges::max(step.table.sample_lengths());
  settings.micro_batch.max_tokens =
      align_up(longest, settings.alignment()) * *rc::gen::inRange<std::int64_t>(1, 4);
  const PlanInput input = input_of(std::move(step));
  constexpr double rounding = 1 + 1e-12;
  for (const ComparedSharing& way : compare_sharing(input, settings)) {
    std::int64_t once = 0;
    if (way.sharing == PrefixSharing::none) once = input.table.num_tokens();
    if (way.sharing == PrefixSharing::prompts)
      for (const SharedGroup& group : prompt_groups(input.table)) once += group.tree.num_rows();
    if (way.sharing == PrefixSharing::trees)
      for (const SharedGroup& group : input.trees) once += group.tree.num_rows();
    RC_ASSERT(way.tokens == once + sum_of(way.repeated) + way.recomputed);
    RC_ASSERT(way.held <= settings.micro_batch.max_tokens);
    RC_ASSERT(way.end_once || way.end_meeting);
    for (const std::optional<double>& end : {way.end_once, way.end_meeting})
      RC_ASSERT(!end || way.work <= *end * rounding);
    if (way.schedule == SegmentSchedule::packed) RC_ASSERT(*way.least_work <= way.work * rounding);
  }
}

}  // namespace
}  // namespace evenkeel::cli
