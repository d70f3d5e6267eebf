#include "plan/assign/dp_assignment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "balance/partition/automatic.hpp"
#include "balance/partition/lpt.hpp"
#include "evenkeel/balance/karmarkar_karp.hpp"
#include "support/assigned_samples.hpp"
#include "support/made_up_table.hpp"
#include "support/strategies.hpp"

namespace evenkeel {
namespace {

using testing_support::use;

using testing::ElementsAre;
using testing_support::made_up_table;
using testing_support::samples_to_dp_ranks;
using testing_support::table_of;

PlanSettings with(BalanceAlgorithm algorithm, bool refine, int dp = 2) {
  PlanSettings settings;
  settings.dp = dp;
  use<PackedSettings>(settings).algorithm = algorithm;
  use<PackedSettings>(settings).refine = refine;
  return settings;
}

Cost largest_share(const LengthTable& table, const PlanSettings& settings) {
  return std::ranges::max(group_sums(samples_to_dp_ranks(table, settings), costs_of(table, settings)));
}

/// Karmarkar-Karp and longest processing time both reach 18; 8 + 7 and 6 + 6 + 5 is optimal.
const LengthTable five_samples = table_of({8, 6, 5, 7, 6});

TEST(DpAssignment, without_refinement_karmarkar_karp_and_lpt_match_the_references) {
  for (const bool equal_count : {false, true}) {
    const GroupSize group_size = equal_count ? GroupSize::equal : GroupSize::free;
    const LengthTable table = made_up_table(60, 3);
    PlanSettings settings = with(BalanceAlgorithm::karmarkar_karp, false, 7);
    use<PackedSettings>(settings).equal_count = equal_count;
    const std::vector<Cost> costs = costs_of(table, settings);
    EXPECT_EQ(samples_to_dp_ranks(table, settings), karmarkar_karp(costs, 7, group_size).with_sorted_items());
    use<PackedSettings>(settings).algorithm = BalanceAlgorithm::lpt;
    EXPECT_EQ(samples_to_dp_ranks(table, settings),
              longest_processing_time(costs, 7, group_size).with_sorted_items());
  }
}

TEST(DpAssignment, refinement_improves_karmarkar_karp_and_lpt) {
  for (const auto algorithm : {BalanceAlgorithm::karmarkar_karp, BalanceAlgorithm::lpt}) {
    EXPECT_EQ(largest_share(five_samples, with(algorithm, false)), 18);
    EXPECT_EQ(largest_share(five_samples, with(algorithm, true)), 17);
  }
}

TEST(DpAssignment, automatic_balances_samples_by_the_settings) {
  const LengthTable table = made_up_table(100, 3);
  for (const bool refine : {false, true}) {
    for (const bool equal_count : {false, true}) {
      PlanSettings settings = with(BalanceAlgorithm::automatic, refine, 6);
      use<PackedSettings>(settings).equal_count = equal_count;
      const GroupSize group_size = equal_count ? GroupSize::equal : GroupSize::free;
      EXPECT_EQ(samples_to_dp_ranks(table, settings),
                balance_items(costs_of(table, settings), 6, group_size, refine).with_sorted_items());
    }
  }
}

TEST(DpAssignment, sorted_stride_assigns_samples_by_ascending_length_and_is_never_refined) {
  for (const bool refine : {false, true}) {
    EXPECT_THAT(samples_to_dp_ranks(five_samples, with(BalanceAlgorithm::sorted_stride, refine)).to_vectors(),
                ElementsAre(ElementsAre(0, 2, 4), ElementsAre(1, 3)));
  }
}

TEST(DpAssignment, none_assigns_runs_in_source_order_and_is_never_refined) {
  for (const bool refine : {false, true}) {
    EXPECT_THAT(samples_to_dp_ranks(five_samples, with(BalanceAlgorithm::none, refine)).to_vectors(),
                ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 4)));
  }
}

TEST(DpAssignment, unbalanced_costs_are_those_of_the_runs) {
  EXPECT_THAT(unbalanced_dp_costs(five_samples, with(BalanceAlgorithm::automatic, true)),
              ElementsAre(19, 13));
}

RC_GTEST_PROP(DpAssignment, refinement_never_makes_a_step_longer, ()) {
  const LengthTable table = made_up_table(*rc::gen::inRange<std::int64_t>(0, 80), 3);
  const auto dp = *rc::gen::inRange(1, 12);
  PlanSettings settings =
      with(*rc::gen::element(BalanceAlgorithm::karmarkar_karp, BalanceAlgorithm::lpt), false, dp);
  use<PackedSettings>(settings).equal_count = *rc::gen::arbitrary<bool>();
  const Cost before = largest_share(table, settings);
  use<PackedSettings>(settings).refine = true;
  RC_ASSERT(largest_share(table, settings) <= before);
  const Partition assignment = samples_to_dp_ranks(table, settings);
  for (std::int64_t r = 0; r < assignment.size(); ++r) RC_ASSERT(std::ranges::is_sorted(assignment[r]));
}

TEST(DpAssignment, a_rank_of_half_the_speed_gets_half_the_work) {
  PlanSettings settings = with(BalanceAlgorithm::automatic, true, 3);
  settings.balance.speeds = {1000, 500, 1000};
  const LengthTable table = made_up_table(200, 3);
  const std::vector<Cost> work = group_sums(samples_to_dp_ranks(table, settings), costs_of(table, settings));
  const Cost fifth = table.num_tokens() / 5;
  EXPECT_NEAR(static_cast<double>(work[0]), static_cast<double>(2 * fifth), 4);
  EXPECT_NEAR(static_cast<double>(work[1]), static_cast<double>(fifth), 4);
  EXPECT_NEAR(static_cast<double>(work[2]), static_cast<double>(2 * fifth), 4);
}

TEST(DpAssignment, equal_speeds_change_nothing) {
  PlanSettings settings = with(BalanceAlgorithm::automatic, true, 4);
  const LengthTable table = made_up_table(100, 3);
  const Partition plain = samples_to_dp_ranks(table, settings);
  settings.balance.speeds = {500, 500, 500, 500};
  EXPECT_EQ(samples_to_dp_ranks(table, settings), plain);
}

}  // namespace
}  // namespace evenkeel
