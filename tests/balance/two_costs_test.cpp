#include "balance/partition/two_costs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "balance/partition/automatic.hpp"
#include "balance/quality.hpp"
#include "balance/random_costs.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

using Costs = std::vector<Cost>;

/// The time of groups that are synchronized after each kind of work.
struct TwoLargestSums {
  Cost model = 0;
  Cost encoder = 0;

  friend bool operator==(const TwoLargestSums&, const TwoLargestSums&) = default;
};

TwoLargestSums largest_sums(const Partition& partition, const TwoCosts& costs) {
  return {largest_sum(partition, costs.model), largest_sum(partition, costs.encoder)};
}

/// Returns the smallest possible largest sum of the second kind over all assignments of a few items whose
/// largest sum of the first kind is at most `allowed`.
Cost least_second(const Costs& first, const Costs& second, Cost allowed, std::int64_t k) {
  Cost least = std::numeric_limits<Cost>::max();
  std::vector<std::size_t> group(first.size(), 0);
  while (true) {
    Costs firsts(static_cast<std::size_t>(k), 0);
    Costs seconds(static_cast<std::size_t>(k), 0);
    for (std::size_t i = 0; i < group.size(); ++i) {
      firsts[group[i]] += first[i];
      seconds[group[i]] += second[i];
    }
    if (std::ranges::max(firsts) <= allowed) least = std::min(least, std::ranges::max(seconds));
    std::size_t next = 0;
    while (next < group.size() && ++group[next] == static_cast<std::size_t>(k)) group[next++] = 0;
    if (next == group.size()) return least;
  }
}

TEST(PartitionByTwoCosts, balances_encoder_work_among_partitions_that_are_equal_for_the_model) {
  const Costs model = {4, 4, 2, 2};
  const Costs encoder = {3, 0, 3, 0};
  const Partition partition = partition_by_two_costs({model, encoder}, 2);
  EXPECT_EQ(largest_sums(partition, {model, encoder}), (TwoLargestSums{6, 3}));
}

TEST(PartitionByTwoCosts, balances_the_cost_with_more_total_work_first) {
  const Costs model = {1, 1, 1, 0};
  const Costs encoder = {50, 30, 20, 40};
  EXPECT_EQ(largest_sums(partition_by_two_costs({model, encoder}, 2), {model, encoder}),
            (TwoLargestSums{2, 70}));
  EXPECT_EQ(largest_sums(partition_by_two_costs({encoder, model}, 2), {encoder, model}),
            (TwoLargestSums{70, 2}));
}

TEST(PartitionByTwoCosts, without_encoder_work_only_the_model_decides) {
  const Costs model = {8, 7, 6, 6, 5, 1, 2};
  EXPECT_EQ(partition_by_two_costs({model, Costs(7, 0)}, 3), balance_items(model, 3));
  EXPECT_EQ(partition_by_two_costs({Costs(7, 0), model}, 3), balance_items(model, 3));
}

TEST(PartitionByTwoCosts, balances_both_costs_if_they_are_uncorrelated) {
  std::mt19937_64 random(11);
  std::lognormal_distribution<double> length(7.5, 1.0);
  std::geometric_distribution<Cost> images(0.3);
  Costs model(1024);
  Costs encoder(1024);
  for (Cost& cost : model) cost = std::clamp(static_cast<Cost>(length(random)), Cost{64}, Cost{8192});
  for (Cost& cost : encoder) cost = 256 * images(random);
  const TwoLargestSums sums = largest_sums(partition_by_two_costs({model, encoder}, 64), {model, encoder});
  const TwoLargestSums alone = largest_sums(balance_items(model, 64), {model, encoder});
  EXPECT_LE(1000 * sums.model, 1002 * max_sum_lower_bound(model, 64));
  EXPECT_LE(100 * sums.encoder, 101 * max_sum_lower_bound(encoder, 64));
  EXPECT_LT(100 * sums.encoder, 75 * alone.encoder);
}

TEST(PartitionByTwoCosts, balances_groups_of_very_many_items_as_well) {
  std::mt19937_64 random(7);
  Costs model(100'000);
  Costs encoder(100'000);
  for (Cost& cost : model) cost = 64 + static_cast<Cost>(random() % 8192);
  for (Cost& cost : encoder) cost = static_cast<Cost>(random() % 512);
  const TwoLargestSums sums = largest_sums(partition_by_two_costs({model, encoder}, 2), {model, encoder});
  EXPECT_LE(1000 * sums.model, 1001 * max_sum_lower_bound(model, 2));
  EXPECT_LE(1000 * sums.encoder, 1001 * max_sum_lower_bound(encoder, 2));
}

TEST(PartitionByTwoCosts, lists_of_different_lengths_and_negative_costs_are_errors) {
  EXPECT_THROW((void)partition_by_two_costs({Costs{1, 2}, Costs{1}}, 2), InputError);
  EXPECT_THROW((void)partition_by_two_costs({Costs{1}, Costs{-1}}, 2), InputError);
  EXPECT_THROW((void)partition_by_two_costs({Costs{-1}, Costs{1}}, 2), InputError);
  EXPECT_THROW((void)partition_by_two_costs({Costs{1}, Costs{1}}, 0), InputError);
}

RC_GTEST_PROP(PartitionByTwoCosts, keeps_its_promises_beside_balancing_one_kind_alone, ()) {
  Costs model = *cost_lists(60);
  Costs encoder = *cost_lists(60);
  encoder.resize(model.size(), 3);
  const std::int64_t k = *rc::gen::inRange<std::int64_t>(1, 9);
  const TwoCosts costs{model, encoder};
  const Partition partition = partition_by_two_costs(costs, k);
  RC_ASSERT(partition.size() == k);
  RC_ASSERT(holds_every_item_once(partition, model.size()));
  RC_ASSERT(partition == partition_by_two_costs(costs, k));
  const bool model_first = std::accumulate(model.begin(), model.end(), Cost{0}) >=
                           std::accumulate(encoder.begin(), encoder.end(), Cost{0});
  const Costs& first = model_first ? model : encoder;
  const Costs& second = model_first ? encoder : model;
  const Partition alone = balance_items(first, k);
  const Cost most = largest_sum(alone, first);
  RC_ASSERT(largest_sum(partition, first) <= most + most / 512);
  RC_ASSERT(largest_sum(partition, second) <= largest_sum(alone, second));
}

RC_GTEST_PROP(PartitionByTwoCosts, of_a_few_items_is_near_the_optimum, ()) {
  Costs model = *cost_lists(7);
  Costs encoder = *cost_lists(7);
  encoder.resize(model.size(), 3);
  const bool model_first = std::accumulate(model.begin(), model.end(), Cost{0}) >=
                           std::accumulate(encoder.begin(), encoder.end(), Cost{0});
  const Costs& first = model_first ? model : encoder;
  const Costs& second = model_first ? encoder : model;
  const Partition partition = partition_by_two_costs({model, encoder}, 3);
  const Cost allowed = largest_sum(partition, first);
  const Cost optimum = least_second(first, second, allowed, 3);
  RC_ASSERT(largest_sum(partition, second) >= optimum);
  // Moving and swapping single items does not find every assignment.
  RC_ASSERT(largest_sum(partition, second) <= 2 * optimum + 1);
}

}  // namespace
}  // namespace evenkeel
