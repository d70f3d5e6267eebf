#include "plan/units/pack_units.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>

#include "evenkeel/base/error.hpp"
#include "evenkeel/pack/cp_layout.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "pack/prefix/arbitrary_tree.hpp"
#include "plan/assign/step_assignment.hpp"
#include "plan/branching_step.hpp"
#include "support/ids.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::all_ids;
using testing_support::ids;

using Entries = std::vector<std::int64_t>;

/// Returns samples of (uid, prompt, response), in order.
LengthTable table_of(const std::vector<std::array<std::int64_t, 3>>& samples) {
  std::vector<LengthEntry> entries;
  for (const auto& [uid, prompt, response] : samples) {
    const auto id = static_cast<int>(entries.size());
    entries.push_back({{SampleId{id}, static_cast<std::uint64_t>(uid), prompt, response}, WorldRank{0}, id});
  }
  return LengthTable(std::move(entries));
}

PlanSettings sharing(std::int64_t cap, int dp = 1) {
  PlanSettings settings;
  settings.dp = dp;
  settings.sharing = PrefixSharing::prompts;
  settings.micro_batch.max_tokens = cap;
  settings.balance.cost = CostModel{0, 1};
  return settings;
}

std::vector<Entries> entries_of(const PackUnits& units) {
  std::vector<Entries> entries;
  for (const UnitId unit : ids_below<UnitId>(units.size()))
    entries.push_back(numbers_of(units[unit].entries));
  return entries;
}

TEST(PrefixTrees, are_built_from_the_tokens_of_each_uid_in_any_order) {
  const LengthTable table = table_of({{7, 2, 1}, {8, 2, 1}, {7, 2, 2}});
  const std::vector<std::vector<std::int64_t>> tokens{{1, 2, 3}, {1, 2, 3}, {1, 2, 4, 5}};
  const std::vector<std::span<const std::int64_t>> sequences(tokens.begin(), tokens.end());
  const std::vector<SharedGroup> trees = prefix_trees(table, sequences);
  ASSERT_EQ(trees.size(), 2U);
  EXPECT_EQ(trees[0].entries, ids<EntryId>({0, 2}));
  EXPECT_EQ(trees[0].tree.num_rows(), 2 + 1 + 2);
  EXPECT_EQ(trees[1].entries, ids<EntryId>({1}));
}

TEST(PrefixTrees, are_refused_if_they_omit_or_repeat_samples) {
  const LengthTable table = table_of({{7, 2, 1}, {8, 2, 1}});
  PlanSettings settings = sharing(100);
  settings.sharing = PrefixSharing::trees;
  const std::vector<std::vector<std::int64_t>> tokens{{1, 2, 3}, {1, 2, 3}};
  const std::vector<std::span<const std::int64_t>> sequences(tokens.begin(), tokens.end());
  const std::vector<SharedGroup> both = prefix_trees(table, sequences);
  EXPECT_EQ(plan_step({table, settings, 0, both}).num_micro_batches(), 1);
  EXPECT_THROW((void)plan_step({table, settings}), InputError);
  EXPECT_THROW((void)plan_step({table, settings, 0, std::vector{both[0]}}), InputError);
  EXPECT_THROW((void)plan_step({table, settings, 0, std::vector{both[0], both[0]}}), InputError);
}

TEST(PromptGroups, collect_samples_of_one_uid_in_any_order) {
  const LengthTable table = table_of({{7, 3, 2}, {8, 2, 1}, {7, 3, 4}, {8, 2, 2}, {7, 3, 0}});
  const std::vector<SharedGroup> groups = prompt_groups(table);
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].entries, ids<EntryId>({0, 2, 4}));
  EXPECT_EQ(groups[1].entries, ids<EntryId>({1, 3}));
  EXPECT_EQ(groups[0].tree.num_rows(), 3 + 2 + 4);
}

TEST(PromptGroups, never_share_a_prompt_that_differs) {
  std::vector<LengthEntry> entries;
  for (const std::uint64_t hash : {1U, 2U, 1U}) {
    const auto id = static_cast<int>(entries.size());
    entries.push_back({{SampleId{id}, 7, 3, 2}, WorldRank{0}, id, -1, hash});
  }
  const LengthTable table(std::move(entries));
  const std::vector<SharedGroup> groups = prompt_groups(table);
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].entries, ids<EntryId>({0, 2}));
}

TEST(PackUnits, are_the_samples_if_nothing_is_shared) {
  const LengthTable table = table_of({{7, 3, 2}, {7, 3, 4}});
  PlanSettings settings = sharing(100);
  settings.sharing = PrefixSharing::none;
  settings.align_lcm = 4;
  const PackUnits units = make_units({table, settings});
  EXPECT_FALSE(units.has_shared_prefixes());
  EXPECT_THAT(entries_of(units), ElementsAre(ElementsAre(0), ElementsAre(1)));
  EXPECT_EQ(units[UnitId{1}].rows, 7);
  EXPECT_EQ(units[UnitId{1}].aligned_rows, 8);
  EXPECT_EQ(units[UnitId{1}].cost, 49);
  EXPECT_EQ(units[UnitId{1}].tree, nullptr);
}

TEST(PackUnits, of_one_group_are_adjacent_with_consecutive_segment_numbers) {
  const LengthTable table = table_of({{7, 4, 2}, {8, 1, 1}, {7, 4, 2}, {7, 4, 3}});
  const PlanSettings settings = sharing(8);
  const PackUnits units = make_units({table, settings});
  EXPECT_THAT(entries_of(units), ElementsAre(ElementsAre(0, 2), ElementsAre(3), ElementsAre(1)));
  EXPECT_EQ(units.num_groups(), 2);
  EXPECT_EQ(units.first_unit_of_group(1), UnitId{2});
  // A prompt and two responses come before it.
  EXPECT_THAT(numbers_of(units.segments_of(UnitId{1})), ElementsAre(3, 4));
}

TEST(PackUnits, cost_the_prompt_and_its_attention_once) {
  // s^2: 3^2 + (4^2 - 3^2) + (5^2 - 3^2) = 32, where apart they cost 16 + 25.
  const LengthTable table = table_of({{7, 3, 1}, {7, 3, 2}});
  const PlanSettings settings = sharing(100);
  const PackUnits units = make_units({table, settings});
  ASSERT_EQ(units.size(), 1);
  EXPECT_EQ(units[UnitId{0}].cost, 32);
  EXPECT_EQ(units[UnitId{0}].cost, cost_of_group(CostModel{0, 1}, 3, Entries{1, 2}));
  EXPECT_EQ(units[UnitId{0}].aligned_rows, 6);
}

TEST(PackUnits, split_a_group_above_the_cap_and_repeat_the_prompt) {
  const LengthTable table = table_of({{7, 4, 2}, {7, 4, 2}, {7, 4, 3}, {7, 4, 1}});
  const PlanSettings settings = sharing(8);
  const PackUnits units = make_units({table, settings});
  EXPECT_THAT(entries_of(units), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  EXPECT_THAT(savings_of(units).tokens, 4 + 2 + 2 + 4 + 3 + 1);
  EXPECT_EQ(savings_of(units).repeated_tokens, 24);
  EXPECT_EQ(units.repeated(), (RepeatedTokens{4, 0, 0}));
}

TEST(PackUnits, do_not_share_prompt_rows_that_predict_ahead_into_a_response) {
  const LengthTable table = table_of({{7, 4, 2}, {7, 4, 0}, {8, 1, 3}, {8, 1, 3}, {9, 4, 1}});
  PlanSettings settings = sharing(100);
  settings.predict_ahead = 3;
  const PackUnits units = make_units({table, settings});
  EXPECT_EQ(units[UnitId{0}].rows, 1 + (3 + 2) + 3);
  EXPECT_EQ(units[UnitId{1}].rows, 4 + 4);
  EXPECT_EQ(units.repeated(), (RepeatedTokens{0, 0, 0, 3 + 1}));
  settings.micro_batch.max_tokens = 6;
  EXPECT_EQ(make_units({table, settings}).repeated(), (RepeatedTokens{1, 0, 0, 3 + 1}));
}

TEST(PackUnits, of_trees_repeat_rows_that_predict_ahead_into_a_branch) {
  const std::vector<std::vector<std::int64_t>> tokens{{1, 2, 3, 4}, {1, 2, 3, 5, 6}, {1, 2, 7}};
  const std::vector<std::span<const std::int64_t>> sequences(tokens.begin(), tokens.end());
  const LengthTable table = table_of({{7, 1, 3}, {7, 1, 4}, {7, 1, 2}});
  PlanSettings settings = sharing(100);
  settings.sharing = PrefixSharing::trees;
  settings.predict_ahead = 1;
  const std::vector<SharedGroup> trees = prefix_trees(table, sequences, 1);
  EXPECT_EQ(trees[0].tree.num_rows(), 7 + 2);
  EXPECT_EQ(make_units({table, settings, 0, trees}).repeated(), (RepeatedTokens{0, 0, 0, 2}));
}

TEST(PackUnits, hold_at_most_max_samples) {
  const LengthTable table = table_of({{7, 1, 1}, {7, 1, 1}, {7, 1, 1}});
  PlanSettings settings = sharing(100);
  settings.micro_batch.max_samples = 2;
  const PackUnits units = make_units({table, settings});
  EXPECT_THAT(entries_of(units), ElementsAre(ElementsAre(0, 1), ElementsAre(2)));
  EXPECT_EQ(units.repeated(), (RepeatedTokens{0, 1, 0}));
}

// If split by samples first and then by tokens, they would be {0, 1}, {2}, {3, 4} and {5}.
TEST(PackUnits, of_a_tree_keep_all_limits_together) {
  std::vector<std::vector<std::int64_t>> tokens;
  for (std::int64_t i = 0; i < 6; ++i) tokens.push_back({1, 2, 10 + i, 20 + i});
  const LengthTable table = table_of(std::vector<std::array<std::int64_t, 3>>(6, {7, 1, 3}));
  const std::vector<SharedGroup> trees =
      prefix_trees(table, std::vector<std::span<const std::int64_t>>(tokens.begin(), tokens.end()));
  PlanSettings settings = sharing(6);
  settings.sharing = PrefixSharing::trees;
  settings.micro_batch.max_samples = 3;
  const PackUnits units = make_units({table, settings, 0, trees});
  EXPECT_THAT(entries_of(units), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4, 5)));
  EXPECT_EQ(units.repeated(), (RepeatedTokens{2 + 2, 0, 0}));
}

TEST(PackUnits, of_a_tree_merge_parts_that_fit_even_if_not_adjacent) {
  const std::vector<std::vector<std::int64_t>> tokens{{2, 2, 2}, {2, 1}, {2, 2, 1, 2, 1}};
  const LengthTable table = table_of({{7, 0, 3}, {7, 0, 2}, {7, 0, 5}});
  const std::vector<SharedGroup> trees =
      prefix_trees(table, std::vector<std::span<const std::int64_t>>(tokens.begin(), tokens.end()));
  PlanSettings settings = sharing(5);
  settings.sharing = PrefixSharing::trees;
  const PackUnits units = make_units({table, settings, 0, trees});
  EXPECT_THAT(entries_of(units), ElementsAre(ElementsAre(0, 1), ElementsAre(2)));
  EXPECT_EQ(units[UnitId{0}].rows, 4) << "`2 2 2` and `2 1`";
  EXPECT_EQ(units.repeated(), (RepeatedTokens{2, 0, 0}));
}

TEST(PackUnits, of_a_prompt_merge_parts_that_fit_even_if_not_adjacent) {
  const LengthTable table = table_of({{7, 3, 3}, {7, 3, 6}, {7, 3, 2}, {7, 3, 1}});
  const PackUnits units = make_units({table, sharing(9)});
  EXPECT_THAT(entries_of(units), ElementsAre(ElementsAre(0, 2, 3), ElementsAre(1)));
  EXPECT_EQ(units.repeated(), (RepeatedTokens{3, 0, 0}));
}

TEST(PackUnits, align_a_sample_as_a_whole_if_prompt_and_response_do_not_fit_separately) {
  const LengthTable table = table_of({{7, 5, 3}, {7, 5, 1}});
  PlanSettings settings = sharing(8);
  settings.align = 8;
  const PackUnits units = make_units({table, settings});
  EXPECT_THAT(entries_of(units), ElementsAre(ElementsAre(0), ElementsAre(1)));
  EXPECT_EQ(units[UnitId{0}].aligned_rows, 8);
  EXPECT_EQ(units[UnitId{0}].tree->size(), 1);
}

// The limit counts samples, no matter how many of them a group has.
TEST(SharedStep, needs_no_more_micro_batches_because_one_group_is_large) {
  std::vector<std::array<std::int64_t, 3>> samples(8, {1, 2, 1});
  for (std::int64_t uid = 2; uid < 10; ++uid) samples.push_back({uid, 2, 1});
  PlanSettings settings = sharing(1000);
  settings.micro_batch.max_samples = 8;
  const StepPlan plan = plan_step({table_of(samples), settings});
  EXPECT_EQ(plan.num_micro_batches(), 2);
  EXPECT_EQ(plan.ranks[0].lower_bound, 2);
  for (const MicroBatchPlan& m : plan.ranks[0].micro_batches) EXPECT_EQ(m.entries.size(), 8U);
}

TEST(SharedStep, names_a_sample_that_does_not_fit_alone) {
  try {
    (void)plan_step({table_of({{7, 4, 2}, {7, 4, 9}}), sharing(12)});
    FAIL() << "13 tokens fit under a cap of 12";
  } catch (const LimitError& error) {
    EXPECT_THAT(error.what(), HasSubstr("sample 1"));
  }
}

TEST(SharedStep, needs_unpadded_micro_batches_and_its_own_planning) {
  PlanSettings settings = sharing(100);
  settings.strategy = PaddedSettings{};
  EXPECT_THROW((void)plan_step({{}, settings}), ConfigError);
  settings.strategy = ReferenceSettings{Preset::verl};
  EXPECT_THROW((void)plan_step({{}, settings}), ConfigError);
}

TEST(SharedStep, names_a_sample_longer_than_the_limit_on_paths) {
  PlanSettings settings = sharing(100);
  settings.max_path_tokens = 9;
  settings.align = 8;  // pad rows do not count
  EXPECT_NO_THROW((void)plan_step({table_of({{7, 4, 2}, {7, 4, 5}}), settings}));
  try {
    (void)plan_step({table_of({{7, 4, 2}, {7, 4, 6}, {7, 4, 9}}), settings});
    FAIL() << "10 tokens are above the cap of a path";
  } catch (const LimitError& error) {
    EXPECT_EQ(error.report().where, "sample 1");
    EXPECT_THAT(error.what(), HasSubstr("10 tokens from the root of its tree to a leaf, above the cap of 9"));
    EXPECT_THAT(error.what(), HasSubstr("Raise prefix.max_path_tokens to at least 10"));
  }
}

LengthTable any_table() {
  std::vector<std::array<std::int64_t, 3>> samples;
  const auto count = *rc::gen::inRange<std::int64_t>(0, 60);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto uid = *rc::gen::inRange<std::int64_t>(0, 12);
    samples.push_back({uid, 1 + uid * 5 % 17, *rc::gen::inRange<std::int64_t>(0, 30)});
  }
  return table_of(samples);
}

PlanSettings any_settings() {
  PlanSettings settings = sharing(*rc::gen::inRange<std::int64_t>(64, 200), *rc::gen::inRange(1, 6));
  settings.cp = {*rc::gen::inRange(1, 4), CpLayout::zigzag};
  settings.mini_batches = {*rc::gen::inRange<std::int64_t>(1, 4), *rc::gen::arbitrary<bool>(),
                           *rc::gen::arbitrary<bool>()};
  if (*rc::gen::arbitrary<bool>()) settings.micro_batch.max_samples = *rc::gen::inRange<std::int64_t>(1, 6);
  return settings;
}

RC_GTEST_PROP(SharedStep, hands_out_every_sample_once_under_the_cap_and_the_sample_limit, ()) {
  const LengthTable table = any_table();
  const PlanSettings settings = any_settings();
  const StepPlan plan = plan_step({table, settings});
  std::vector<EntryId> delivered;
  for (const DpRankPlan& rank : plan.ranks) {
    RC_ASSERT(std::ssize(rank.micro_batches) == plan.num_micro_batches());
    for (const MicroBatchPlan& m : rank.micro_batches) {
      RC_ASSERT(m.aligned_tokens <= settings.micro_batch.max_tokens);
      RC_ASSERT(std::ssize(m.entries) <= settings.micro_batch.max_samples.value_or(1 << 20));
      delivered.insert(delivered.end(), m.entries.begin(), m.entries.end());
    }
  }
  std::ranges::sort(delivered);
  RC_ASSERT(delivered == all_ids<EntryId>(table.size()));
}

/// Groups of samples with the same beginning, with their tokens.
struct Forest {
  LengthTable table;
  std::vector<SharedGroup> trees;
};

Forest any_forest() {
  std::vector<std::array<std::int64_t, 3>> shapes;
  std::vector<std::vector<std::int64_t>> tokens;
  const auto uids = *rc::gen::inRange<std::int64_t>(1, 4);
  for (std::int64_t uid = 0; uid < uids; ++uid) {
    for (const Tokens& sample : arbitrary_samples(12)) {
      const auto length = std::ssize(sample);
      const auto prompt = *rc::gen::inRange<std::int64_t>(0, length + 1);
      shapes.push_back({uid, prompt, length - prompt});
      tokens.push_back(sample);
    }
  }
  Forest forest{table_of(shapes), {}};
  forest.trees =
      prefix_trees(forest.table, std::vector<std::span<const std::int64_t>>(tokens.begin(), tokens.end()));
  return forest;
}

RC_GTEST_PROP(SharedStep, has_no_path_above_its_cap_and_no_tree_above_its_own, ()) {
  const Forest forest = any_forest();
  PlanSettings settings = any_settings();
  settings.sharing = PrefixSharing::trees;
  settings.max_path_tokens = *rc::gen::inRange<std::int64_t>(1, 80);
  const std::vector<std::int64_t> lengths = forest.table.sample_lengths();
  const std::int64_t longest = lengths.empty() ? 1 : std::max<std::int64_t>(1, std::ranges::max(lengths));
  settings.micro_batch.max_tokens =
      align_up(longest, settings.alignment()) + *rc::gen::inRange<std::int64_t>(0, 60);
  const auto above =
      std::ranges::find_if(lengths, [&](std::int64_t length) { return length > *settings.max_path_tokens; });
  const StepProblem problem{forest.table, settings, 0, forest.trees};
  if (above != lengths.end()) {
    try {
      (void)plan_step(problem);
      RC_FAIL("a path is above its cap");
    } catch (const LimitError& error) {
      RC_ASSERT(error.report().where == "sample " + std::to_string(above - lengths.begin()));
    }
    return;
  }
  const StepAssignment assignment = assign_step(problem);
  const PackUnits& units = assignment.units;
  std::int64_t rows = 0;
  for (const UnitId unit : ids_below<UnitId>(units.size())) {
    RC_ASSERT(units[unit].aligned_rows <= settings.micro_batch.max_tokens);
    for (const TreeSegment& segment : units[unit].tree->segments())
      RC_ASSERT(segment.source().end <= *settings.max_path_tokens);
    rows += units[unit].rows;
  }
  for (const SharedGroup& whole : forest.trees) rows -= whole.tree.num_rows();
  RC_ASSERT(std::accumulate(units.repeated().begin(), units.repeated().end(), std::int64_t{0}) == rows);
}

RC_GTEST_PROP(SharedStep, computes_shared_tokens_of_a_micro_batch_once, ()) {
  const Forest forest = any_forest();
  PlanSettings settings = sharing(1, *rc::gen::inRange(1, 4));
  settings.sharing = PrefixSharing::trees;
  const std::vector<std::int64_t> lengths = forest.table.sample_lengths();
  settings.micro_batch.max_tokens =
      std::max<std::int64_t>(1, lengths.empty() ? 1 : std::ranges::max(lengths)) +
      *rc::gen::inRange<std::int64_t>(0, 60);
  if (*rc::gen::arbitrary<bool>()) settings.micro_batch.max_samples = *rc::gen::inRange<std::int64_t>(1, 6);
  for (const DpRankPlan& rank : plan_step({forest.table, settings, 0, forest.trees}).ranks) {
    for (const MicroBatchPlan& m : rank.micro_batches) {
      RC_ASSERT(m.tokens == testing_support::distinct_tokens(forest.trees, m.entries));
    }
  }
}

RC_GTEST_PROP(SharedStep, paths_of_segments_are_the_samples, ()) {
  const LengthTable table = any_table();
  const StepAssignment assignment = assign_step({table, any_settings()});
  for (const EntryId e : ids_below<EntryId>(table.size())) {
    std::int64_t next = 0;
    for (const SegmentId s : assignment.segments.path_of(e)) {
      const Segment& segment = assignment.segments[s];
      RC_ASSERT(segment.rows.begin == next);
      RC_ASSERT(table[segment.entry].shape.group == table[e].shape.group);
      next = segment.rows.end;
    }
    RC_ASSERT(next == table[e].shape.length());
  }
}

RC_GTEST_PROP(SharedStep, every_segment_belongs_to_one_dp_rank, ()) {
  const StepAssignment assignment = assign_step({any_table(), any_settings()});
  std::vector<SegmentId> segments = to_vector(assignment.segments.segments_by_group().ids());
  std::ranges::sort(segments);
  RC_ASSERT(segments == all_ids<SegmentId>(assignment.segments.size()));
}

}  // namespace
}  // namespace evenkeel
