#include "balance/partition/item_exchange.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>

#include "balance/best_largest_sum.hpp"
#include "balance/partition/lpt.hpp"
#include "balance/quality.hpp"
#include "balance/random_costs.hpp"
#include "evenkeel/balance/karmarkar_karp.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Groups = std::vector<std::vector<Item>>;

/// Returns items 0..n-1 in k runs in input order, the first n mod k runs one longer.
Partition runs(std::size_t n, std::int64_t k) {
  Groups groups(static_cast<std::size_t>(k));
  Item item = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::size_t count = n / groups.size() + (g < n % groups.size() ? 1 : 0);
    for (std::size_t i = 0; i < count; ++i) groups[g].push_back(item++);
  }
  return Partition{groups};
}

std::vector<std::size_t> counts_of(const Partition& partition) {
  std::vector<std::size_t> counts;
  for (std::int64_t g = 0; g < partition.size(); ++g) counts.push_back(partition[g].size());
  return counts;
}

TEST(Refine, an_item_moves_from_the_heaviest_group_to_a_lighter_one) {
  const std::vector<Cost> costs = {4, 3, 3, 2, 2};
  const Partition refined = refine(costs, Partition{Groups{{0, 1, 2}, {3, 4}}}, GroupSize::free);
  EXPECT_THAT(refined.to_vectors(), ElementsAre(ElementsAre(2, 0), ElementsAre(3, 4, 1)));
}

TEST(Refine, with_equal_counts_items_are_swapped) {
  const std::vector<Cost> costs = {4, 3, 2, 1};
  const Partition refined = refine(costs, Partition{Groups{{0, 1}, {2, 3}}}, GroupSize::equal);
  EXPECT_THAT(refined.to_vectors(), ElementsAre(ElementsAre(3, 0), ElementsAre(2, 1)));
}

TEST(Refine, swaps_items_if_every_move_would_overshoot) {
  const std::vector<Cost> costs = {6, 5, 5, 4};
  const Partition refined = refine(costs, Partition{Groups{{0, 1}, {2, 3}}}, GroupSize::free);
  EXPECT_THAT(group_sums(refined, costs), ElementsAre(10, 10));
}

TEST(Refine, exchanges_several_items_if_no_swap_of_two_helps) {
  const std::vector<Cost> costs = {2, 2, 5, 2, 2, 3};
  for (const GroupSize group_size : {GroupSize::free, GroupSize::equal}) {
    const Partition refined = refine(costs, Partition{Groups{{0, 1, 2}, {3, 4, 5}}}, group_size);
    const bool is_free = group_size == GroupSize::free;
    EXPECT_THAT(group_sums(refined, costs), is_free ? ElementsAre(8, 8) : ElementsAre(9, 7));
  }
}

TEST(Refine, a_partition_at_the_bound_stays_as_it_is) {
  const Partition start{Groups{{2, 0}, {1}}};
  EXPECT_EQ(refine(std::vector<Cost>{1, 3, 2}, start, GroupSize::free), start);
  // No exchange improves 3 + 2 and 4.
  const Partition stuck{Groups{{1, 0}, {2}}};
  EXPECT_EQ(refine(std::vector<Cost>{2, 3, 4}, stuck, GroupSize::free), stuck);
}

TEST(Refine, unchanged_groups_keep_the_order_of_their_items) {
  const std::vector<Cost> costs = {4, 6, 7, 2, 1, 4, 3};
  const Partition refined = refine(costs, Partition{Groups{{1, 0}, {2, 3}, {4, 5, 6}}}, GroupSize::free);
  EXPECT_THAT(refined.to_vectors(), ElementsAre(ElementsAre(6, 1), ElementsAre(2, 3), ElementsAre(4, 0, 5)));
}

TEST(Refine, accepts_an_empty_partition) {
  EXPECT_THAT(refine({}, runs(0, 2), GroupSize::equal).to_vectors(), ElementsAre(IsEmpty(), IsEmpty()));
}

TEST(Refine, describes_an_invalid_start) {
  const std::vector<Cost> costs = {1, 2, 3};
  const auto message_of = [&](const Groups& start, GroupSize group_size) -> std::string {
    try {
      (void)refine(costs, Partition{start}, group_size);
    } catch (const InputError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(message_of({{0}, {1}}, GroupSize::free), HasSubstr("2 items for 3 costs"));
  EXPECT_THAT(message_of({}, GroupSize::free), HasSubstr("0 items for 3 costs"));
  EXPECT_THAT(message_of({{0, 1, 2}, {}}, GroupSize::equal), HasSubstr("group 0 has 3 items"));
  EXPECT_THROW((void)refine({}, Partition{}, GroupSize::free), InputError);
  EXPECT_THROW((void)refine(std::vector<Cost>{-1}, runs(1, 1), GroupSize::free), InputError);
}

RC_GTEST_PROP(Refine, is_never_worse_than_its_start_and_keeps_every_item, ()) {
  const std::vector<Cost> costs = *cost_lists(150);
  const auto k = *rc::gen::inRange<std::int64_t>(1, 40);
  const auto group_size = *rc::gen::element(GroupSize::free, GroupSize::equal);
  for (const Partition& start : {runs(costs.size(), k), karmarkar_karp(costs, k, group_size),
                                 longest_processing_time(costs, k, group_size)}) {
    const Partition refined = refine(costs, start, group_size);
    RC_ASSERT(refined.size() == k);
    RC_ASSERT(holds_every_item_once(refined, costs.size()));
    RC_ASSERT(largest_sum(refined, costs) <= largest_sum(start, costs));
    RC_ASSERT(largest_sum(refined, costs) >= max_sum_lower_bound(costs, k, group_size));
    if (group_size == GroupSize::equal) RC_ASSERT(counts_of(refined) == counts_of(start));
    RC_ASSERT(refine(costs, start, group_size) == refined);
  }
}

/// Returns whether exchanging `given` for `taken` reduces the larger of two sums.
bool helps(Cost heavy, Cost light, Cost given, Cost taken) {
  return std::max(heavy - given + taken, light + given - taken) < heavy;
}

/// Tries to move and to swap every item of group `heavy`.
bool can_be_improved(const Partition& partition, std::span<const Cost> costs, std::int64_t heavy,
                     bool may_move) {
  const std::vector<Cost> sums = group_sums(partition, costs);
  const Cost heavy_sum = sums[static_cast<std::size_t>(heavy)];
  const auto cost_of = [&](Item item) { return costs[static_cast<std::size_t>(item)]; };
  for (std::int64_t light = 0; light < partition.size(); ++light) {
    const Cost light_sum = sums[static_cast<std::size_t>(light)];
    for (const Item given : partition[heavy]) {
      if (may_move && helps(heavy_sum, light_sum, cost_of(given), 0)) return true;
      for (const Item taken : partition[light]) {
        if (helps(heavy_sum, light_sum, cost_of(given), cost_of(taken))) return true;
      }
    }
  }
  return false;
}

RC_GTEST_PROP(Refine, ends_at_the_bound_or_a_local_optimum, ()) {
  const std::vector<Cost> costs = *cost_lists(40);
  const auto k = *rc::gen::inRange<std::int64_t>(2, 9);
  const auto group_size = *rc::gen::element(GroupSize::free, GroupSize::equal);
  const Partition refined = refine(costs, runs(costs.size(), k), group_size);
  const Cost largest = largest_sum(refined, costs);
  if (largest == max_sum_lower_bound(costs, k, group_size)) return;
  const std::vector<Cost> sums = group_sums(refined, costs);
  bool is_final = false;
  for (std::int64_t g = 0; g < k; ++g) {
    is_final = is_final || (sums[static_cast<std::size_t>(g)] == largest &&
                            !can_be_improved(refined, costs, g, group_size == GroupSize::free));
  }
  RC_ASSERT(is_final);
}

// Finn and Horowitz: moves alone reach at worst 2 - 2/(k+1) times the optimum.
RC_GTEST_PROP(Refine, from_any_start_ends_below_twice_the_optimum, ()) {
  const std::vector<Cost> costs = *cost_lists(8);
  const auto k = *rc::gen::inRange<std::int64_t>(2, 4);
  const Partition refined = refine(costs, runs(costs.size(), k), GroupSize::free);
  const Cost best = best_largest_sum(costs, k, GroupSize::free);
  RC_ASSERT(largest_sum(refined, costs) >= best);
  RC_ASSERT(largest_sum(refined, costs) * (k + 1) <= best * 2 * k);
}

}  // namespace
}  // namespace evenkeel
