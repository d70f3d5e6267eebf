#include "plan/assign/step_assignment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "evenkeel/base/error.hpp"
#include "evenkeel/plan/plan_quality.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "plan/micro_batches/padded_batching.hpp"
#include "plan/reference/micro_batches.hpp"
#include "support/made_up_table.hpp"
#include "support/reference_micro_batches.hpp"
#include "support/strategies.hpp"

namespace evenkeel {
namespace {

using testing_support::use;

using testing::ElementsAre;
using testing_support::made_up_table;
using testing_support::reference_micro_batches_of_ranks;
using testing_support::table_of;

using Entries = std::vector<std::int64_t>;

PlanSettings settings_of(int dp, MicroBatchMode mode, std::int64_t max_tokens) {
  PlanSettings settings;
  settings.dp = dp;
  if (mode == MicroBatchMode::padded) settings.strategy = PaddedSettings{};
  if (mode == MicroBatchMode::fixed) settings.strategy = FixedSettings{};
  settings.micro_batch.max_tokens = max_tokens;
  return settings;
}

std::vector<Entries> entries_of(const DpRankPlan& plan) {
  std::vector<Entries> entries;
  for (const MicroBatchPlan& m : plan.micro_batches) entries.push_back(numbers_of(m.entries));
  return entries;
}

// ROLL's dynamic batching document: 8 samples on 2 ranks, lengths rounded up to a multiple of 2. Its
// description matches a cap of 12 tokens.
TEST(PaddedStep, is_the_documented_example_of_dynamic_batching) {
  PlanSettings settings = settings_of(2, MicroBatchMode::padded, 12);
  use<PaddedSettings>(settings).length_round = 2;
  const StepPlan plan = plan_step({table_of({7, 6, 8, 5, 1, 3, 8, 6}), settings});
  EXPECT_EQ(plan.num_micro_batches(), 3);
  EXPECT_THAT(entries_of(plan.ranks[0]), ElementsAre(Entries{4, 3}, Entries{7}, Entries{2}));
  EXPECT_THAT(entries_of(plan.ranks[1]), ElementsAre(Entries{5, 1}, Entries{0}, Entries{6}));
  std::int64_t rows = 0;
  for (const DpRankPlan& rank : plan.ranks) rows += rank.aligned_tokens();
  EXPECT_EQ(rows, 56);
}

RC_GTEST_PROP(PaddedStep, gives_all_ranks_the_same_lengths_and_keeps_rectangles_under_the_cap, ()) {
  const LengthTable table = made_up_table(*rc::gen::inRange<std::int64_t>(0, 60), 3);
  PlanSettings settings = settings_of(*rc::gen::inRange(1, 6), MicroBatchMode::padded, 400);
  settings.cp = {*rc::gen::inRange(1, 4), CpLayout::zigzag};
  use<PaddedSettings>(settings).length_round = *rc::gen::inRange<std::int64_t>(1, 30);
  use<PaddedSettings>(settings).algorithm =
      *rc::gen::element(BalanceAlgorithm::automatic, BalanceAlgorithm::karmarkar_karp);
  const StepPlan plan = plan_step({table, settings});
  const StepAssignment assignment = assign_step({table, settings});
  for (std::size_t m = 0; m < plan.ranks[0].micro_batches.size(); ++m) {
    const std::int64_t length = plan.ranks[0].micro_batches[m].padded_length;
    RC_ASSERT(length % settings.alignment() == 0);
    for (const DpRankPlan& rank : plan.ranks) {
      const MicroBatchPlan& held = rank.micro_batches[m];
      RC_ASSERT(held.padded_length == length);
      RC_ASSERT(std::ssize(held.entries) * length <= settings.micro_batch.max_tokens);
      for (const EntryId entry : held.entries)
        RC_ASSERT(assignment.segments[assignment.segments.path_of(entry).front()].aligned_length == length);
    }
  }
}

TEST(FixedStep, shuffles_differently_for_each_step_and_rank_on_request) {
  const LengthTable table = made_up_table(30, 1);
  PlanSettings settings = settings_of(2, MicroBatchMode::fixed, 1 << 20);
  use<FixedSettings>(settings).size = 4;
  const StepPlan in_order = plan_step({table, settings});
  for (const DpRankPlan& rank : in_order.ranks) {
    Entries all;
    for (const Entries& m : entries_of(rank)) all.insert(all.end(), m.begin(), m.end());
    EXPECT_TRUE(std::ranges::is_sorted(all));
  }
  use<FixedSettings>(settings).shuffle = true;
  EXPECT_EQ(plan_step({table, settings, 3}), plan_step({table, settings, 3}));
  EXPECT_NE(plan_step({table, settings, 3}), plan_step({table, settings, 4}));
  EXPECT_NE(plan_step({table, settings, 3}), in_order);
}

TEST(MiniBatchedStep, tags_micro_batches_and_gives_every_rank_the_same_number_of_each) {
  const LengthTable table = made_up_table(50, 1);
  PlanSettings settings = settings_of(3, MicroBatchMode::packed, 200);
  settings.mini_batches.count = 4;
  const StepPlan plan = plan_step({table, settings});
  const auto tags_of = [](const DpRankPlan& rank) {
    Entries tags;
    for (const MicroBatchPlan& m : rank.micro_batches) tags.push_back(m.mini_batch.value());
    return tags;
  };
  const Entries tags = tags_of(plan.ranks[0]);
  EXPECT_TRUE(std::ranges::is_sorted(tags));
  EXPECT_EQ(tags.front(), 0);
  EXPECT_EQ(tags.back(), 3);
  for (const DpRankPlan& rank : plan.ranks) EXPECT_EQ(tags_of(rank), tags);
}

PlanSettings grid_settings(int dp, std::int64_t max_tokens) {
  PlanSettings settings = settings_of(dp, MicroBatchMode::packed, max_tokens);
  settings.strategy = GridSettings{};
  return settings;
}

RC_GTEST_PROP(GridStep, has_every_sample_once_under_the_cap_in_equal_counts, ()) {
  const LengthTable table = made_up_table(*rc::gen::inRange<std::int64_t>(0, 60), 3);
  PlanSettings settings = grid_settings(*rc::gen::inRange(1, 6), 120);
  settings.mini_batches.count = *rc::gen::inRange<std::int64_t>(1, 4);
  settings.mini_batches.shuffle = *rc::gen::arbitrary<bool>();
  settings.micro_batch.min_count = *rc::gen::inRange<std::int64_t>(1, 3);
  settings.align_lcm = *rc::gen::inRange<std::int64_t>(1, 9);
  const StepAssignment assignment = assign_step({table, settings, 7});
  const StepPlan plan = plan_step({table, settings, 7});
  std::vector<int> times(static_cast<std::size_t>(table.size()));
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    RC_ASSERT(std::ssize(plan.ranks[r].micro_batches) == plan.num_micro_batches());
    RC_ASSERT(plan.ranks[r].lower_bound <= plan.ranks[r].needed);
    RC_ASSERT(plan.ranks[r].needed <= plan.num_micro_batches());
    std::vector<EntryId> of_rank;
    for (const MicroBatchPlan& m : plan.ranks[r].micro_batches) {
      RC_ASSERT(m.aligned_tokens <= settings.micro_batch.max_tokens);
      of_rank.insert(of_rank.end(), m.entries.begin(), m.entries.end());
      for (const EntryId entry : m.entries) ++times[entry.index()];
    }
    const auto share = assignment.shares[static_cast<std::int64_t>(r)];
    RC_ASSERT(std::ranges::is_permutation(of_rank, share));
  }
  RC_ASSERT(std::ranges::count(times, 1) == table.size());
}

TEST(GridStep, keeps_mini_batches_that_are_split_first) {
  const LengthTable table = made_up_table(40, 1);
  PlanSettings settings = grid_settings(3, 200);
  settings.mini_batches = {4, true, true};
  PlanSettings hierarchical = settings;
  use<PackedSettings>(hierarchical).allow_grid = false;
  const auto samples_of = [](const MiniBatchAssignment& mini_batch) {
    Entries entries = numbers_of(mini_batch.units.ids());
    std::ranges::sort(entries);
    return entries;
  };
  const StepAssignment grid = assign_step({table, settings, 2});
  const StepAssignment assignment = assign_step({table, hierarchical, 2});
  ASSERT_EQ(grid.mini_batches.size(), 4U);
  for (std::size_t m = 0; m < 4; ++m)
    EXPECT_EQ(samples_of(grid.mini_batches[m]), samples_of(assignment.mini_batches[m]));
}

TEST(GridStep, waits_less_at_every_micro_batch_than_assigning_first_does) {
  // A few samples have more work than a micro-batch of other samples can have under the cap.
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < 256; ++i)
    lengths.push_back(i % 32 == 0 ? 4000 + 17 * (i % 96) : 100 + 7 * (i % 31));
  PlanSettings settings = grid_settings(8, 6000);
  settings.balance.cost = CostModel::flops_7b();
  const double grid = step_waiting(step_balance(plan_step({table_of(lengths), settings}))).every_micro_batch;
  use<PackedSettings>(settings).allow_grid = false;
  const double assigned_first =
      step_waiting(step_balance(plan_step({table_of(lengths), settings}))).every_micro_batch;
  EXPECT_LT(grid, assigned_first / 2);
}

TEST(GridStep, refuses_settings_of_separate_assignment_or_packing) {
  const auto refused = [](auto change) {
    PlanSettings settings = grid_settings(2, 100);
    change(settings);
    EXPECT_THROW((void)assign_step({table_of({1, 2}), settings}), ConfigError);
  };
  refused([](PlanSettings& s) { s.balance.speeds = {1000, 500}; });
  refused([](PlanSettings& s) { s.mini_batches = {2, false, false}; });
}

std::int64_t tokens_at_home(const LengthTable& table, const StepAssignment& assignment,
                            const PlanSettings& settings) {
  std::int64_t tokens = 0;
  for (int r = 0; r < settings.dp; ++r) {
    for (const EntryId entry : assignment.shares[r]) {
      const int home = settings.dp_of_rank[table[entry].owner.index()];
      if (home == r) tokens += table[entry].shape.length();
    }
  }
  return tokens;
}

TEST(PlacedStep, assigns_each_part_to_the_rank_that_holds_most_of_it) {
  // Parts {0}, {1} and {2, 3}; ranks 2, 0 and 1 own them.
  const LengthTable table({{{SampleId{0}, 0, 0, 9}, WorldRank{2}, 0},
                           {{SampleId{1}, 0, 0, 8}, WorldRank{0}, 0},
                           {{SampleId{2}, 0, 0, 4}, WorldRank{1}, 0},
                           {{SampleId{3}, 0, 0, 4}, WorldRank{1}, 1}});
  PlanSettings settings = settings_of(3, MicroBatchMode::packed, 10);
  settings.dp_of_rank = {0, 1, 2};
  EXPECT_EQ(assign_step({table, settings}).shares.items(),
            Partition(std::vector<std::vector<Item>>{{1}, {2, 3}, {0}}));
}

/// Removes everything that placement changes: which rank runs what.
StepPlan without_places(StepPlan plan) {
  for (DpRankPlan& rank : plan.ranks) {
    for (MicroBatchPlan& m : rank.micro_batches) m.context = {};
  }
  return plan;
}

RC_GTEST_PROP(PlacedStep, changes_only_the_labels, ()) {
  const int dp = *rc::gen::inRange(1, 6);
  const LengthTable table = made_up_table(*rc::gen::inRange<std::int64_t>(0, 60), 2 * dp);
  PlanSettings settings = settings_of(
      dp, *rc::gen::element(MicroBatchMode::packed, MicroBatchMode::padded, MicroBatchMode::fixed), 200);
  if (settings.find<PaddedSettings>() != nullptr) use<PaddedSettings>(settings).length_round = 8;
  settings.mini_batches.count = *rc::gen::inRange<std::int64_t>(1, 4);
  if (settings.find<PackedSettings>() != nullptr && *rc::gen::arbitrary<bool>())
    settings.strategy = GridSettings{};
  for (int rank = 0; rank < 2 * dp; ++rank) settings.dp_of_rank.push_back((rank + 1) % dp);
  PlanSettings unplaced = settings;
  unplaced.balance.placement = PlacementRule::none;
  const StepPlan plan = without_places(plan_step({table, settings}));
  const StepPlan unplaced_step = without_places(plan_step({table, unplaced}));
  RC_ASSERT(plan.num_micro_batches() == unplaced_step.num_micro_batches());
  RC_ASSERT(std::ranges::is_permutation(plan.ranks, unplaced_step.ranks));
  RC_ASSERT(tokens_at_home(table, assign_step({table, settings}), settings) >=
            tokens_at_home(table, assign_step({table, unplaced}), settings));
}

RC_GTEST_PROP(StepByUnits, equals_assigning_the_step_at_once, ()) {
  const int dp = *rc::gen::inRange(1, 6);
  const LengthTable table = made_up_table(*rc::gen::inRange<std::int64_t>(0, 60), dp);
  PlanSettings settings = settings_of(
      dp, *rc::gen::element(MicroBatchMode::packed, MicroBatchMode::padded, MicroBatchMode::fixed), 200);
  settings.mini_batches.count = *rc::gen::inRange<std::int64_t>(1, 4);
  settings.mini_batches.keep = *rc::gen::arbitrary<bool>();
  settings.mini_batches.shuffle = *rc::gen::arbitrary<bool>();
  for (int rank = 0; rank < dp; ++rank) settings.dp_of_rank.push_back((rank + 1) % dp);
  const std::int64_t step = *rc::gen::inRange<std::int64_t>(0, 9);
  RC_ASSERT(shares_are_derived_from_units(settings));
  RC_ASSERT(assign_step_by_units({table, settings, step}, assign_units({table, settings, step})) ==
            assign_step({table, settings, step}));
}

TEST(StepByUnits, does_not_determine_grids) {
  PlanSettings grid;
  grid.strategy = GridSettings{};
  EXPECT_FALSE(shares_are_derived_from_units(grid));
}

TEST(StepByUnits, refuses_samples_that_cannot_be_assigned) {
  const PlanSettings settings = settings_of(2, MicroBatchMode::packed, 8);
  EXPECT_THROW((void)assign_units({table_of({3, 9}), settings}), LimitError);
  EXPECT_THROW((void)assign_units({table_of({3}), settings_of(0, MicroBatchMode::packed, 8)}), ConfigError);
}

TEST(PlacedStep, keeps_the_labels_of_presets) {
  const LengthTable table = made_up_table(40, 4);
  PlanSettings settings = settings_of(4, MicroBatchMode::packed, 300);
  settings.strategy = ReferenceSettings{Preset::verl};
  const StepAssignment unplaced_step = assign_step({table, settings});
  settings.dp_of_rank = {3, 2, 1, 0};
  EXPECT_EQ(assign_step({table, settings}), unplaced_step);
}

/// Returns the micro-batches that a preset's reference makes from shares, all with the count that the ranks
/// agree on.
template <typename Batching>
std::vector<std::vector<Entries>> reference_plan(const LengthTable& table, const IdGroups<EntryId>& shares,
                                                 const Batching& batching) {
  std::vector<Entries> lengths;
  for (std::int64_t r = 0; r < shares.size(); ++r) {
    Entries& of_rank = lengths.emplace_back();
    for (const EntryId entry : shares[r]) of_rank.push_back(table[entry].shape.length());
  }
  const std::vector<Partition> partitions = reference_micro_batches_of_ranks<Batching>(lengths, batching);
  std::vector<std::vector<Entries>> plan;
  for (std::size_t r = 0; r < partitions.size(); ++r) {
    std::vector<Entries>& of_rank = plan.emplace_back(partitions[r].to_vectors());
    for (Entries& m : of_rank) {
      for (std::int64_t& item : m) item = shares[static_cast<std::int64_t>(r)][item].value();
    }
  }
  return plan;
}

std::vector<std::vector<Entries>> planned(const StepPlan& plan) {
  std::vector<std::vector<Entries>> entries;
  for (const DpRankPlan& rank : plan.ranks) entries.push_back(entries_of(rank));
  return entries;
}

TEST(PresetStep, of_verl_is_batch_balance_and_then_its_micro_batches) {
  const LengthTable table = made_up_table(60, 1);
  PlanSettings settings = settings_of(4, MicroBatchMode::packed, 300);
  settings.strategy = ReferenceSettings{Preset::verl};
  const IdGroups<EntryId> shares(roll_batch_balance(table.sample_lengths(), 4));
  EXPECT_EQ(planned(plan_step({table, settings})),
            reference_plan(table, shares, VerlBatching{300, 1, 1, true}));
}

TEST(PresetStep, of_roll_is_batch_balance_and_then_load_balanced_packing) {
  const LengthTable table = made_up_table(60, 1);
  PlanSettings settings = settings_of(4, MicroBatchMode::packed, 320);
  settings.align_lcm = 16;
  settings.micro_batch.min_count = 3;
  settings.strategy = ReferenceSettings{Preset::roll};
  const IdGroups<EntryId> shares(roll_batch_balance(table.sample_lengths(), 4));
  EXPECT_EQ(planned(plan_step({table, settings})), reference_plan(table, shares, RollPacking{320, 3, 1, 16}));
}

TEST(PresetStep, of_mindspeed_rl_is_longest_first_with_equal_counts_and_then_dynamic_batches) {
  const LengthTable table = table_of({9, 1, 8, 2, 5, 5, 7, 3});
  PlanSettings settings = settings_of(2, MicroBatchMode::packed, 12);
  settings.strategy = ReferenceSettings{Preset::mindspeed_rl};
  // 9 | 8, then 7 to the second, 5 to the first, ...: 20 tokens and four samples each.
  const IdGroups<EntryId> shares = assign_step({table, settings}).shares;
  EXPECT_EQ(shares[0].size(), shares[1].size());
  EXPECT_EQ(group_sums(shares.items(), table.sample_lengths()), (Entries{20, 20}));
  EXPECT_EQ(planned(plan_step({table, settings})),
            reference_plan(table, shares, MindSpeedBatching{12, std::nullopt}));
}

TEST(PresetStep, assigns_with_the_named_algorithm) {
  const LengthTable table = made_up_table(30, 1);
  PlanSettings settings = settings_of(3, MicroBatchMode::packed, 300);
  const AssignmentSettings in_order{BalanceAlgorithm::none};
  settings.strategy = ReferenceSettings{Preset::verl, in_order};
  PlanSettings plain = settings;
  plain.strategy = PackedSettings{in_order};
  EXPECT_EQ(assign_step({table, settings}).shares, assign_step({table, plain}).shares);
}

}  // namespace
}  // namespace evenkeel
