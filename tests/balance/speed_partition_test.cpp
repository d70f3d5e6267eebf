#include "balance/partition/speed_partition.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <string>

#include "balance/partition/automatic.hpp"
#include "balance/random_costs.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

using Speeds = std::vector<std::int64_t>;

/// Returns the optimum by trying every assignment of a few items.
double earliest_end(std::span<const Cost> costs, std::span<const std::int64_t> speeds,
                    std::vector<Cost>& sums, std::size_t next = 0) {
  double earliest = next == costs.size() ? 0 : std::numeric_limits<double>::infinity();
  for (std::size_t g = 0; g < speeds.size(); ++g) {
    if (next == costs.size()) {
      earliest = std::max(earliest, static_cast<double>(sums[g]) / static_cast<double>(speeds[g]));
    } else {
      sums[g] += costs[next];
      earliest = std::min(earliest, earliest_end(costs, speeds, sums, next + 1));
      sums[g] -= costs[next];
    }
  }
  return earliest;
}

/// Returns when the last group ends: the largest ratio of sum to speed.
double latest_end(const Partition& partition, std::span<const Cost> costs,
                  std::span<const std::int64_t> speeds) {
  const std::vector<Cost> sums = group_sums(partition, costs);
  double latest = 0;
  for (std::size_t g = 0; g < sums.size(); ++g)
    latest = std::max(latest, static_cast<double>(sums[g]) / static_cast<double>(speeds[g]));
  return latest;
}

TEST(PartitionBySpeed, a_group_of_half_the_speed_gets_half_the_work) {
  const std::vector<Cost> costs = {6, 5, 4, 3};
  const Partition partition = partition_by_speed(costs, Speeds{2, 1});
  EXPECT_THAT(group_sums(partition, costs), testing::ElementsAre(12, 6));
  EXPECT_DOUBLE_EQ(latest_end(partition, costs, Speeds{2, 1}), 6);
}

TEST(PartitionBySpeed, equal_speeds_are_plain_balancing) {
  const std::vector<Cost> costs = {8, 7, 6, 6, 5, 1, 2};
  EXPECT_EQ(partition_by_speed(costs, Speeds{7, 7, 7}), balance_items(costs, 3));
}

TEST(PartitionBySpeed, a_group_that_is_too_slow_for_any_item_stays_empty) {
  const std::vector<Cost> costs = {50, 50};
  EXPECT_THAT(group_sums(partition_by_speed(costs, Speeds{1000, 1}), costs), testing::ElementsAre(100, 0));
}

TEST(PartitionBySpeed, many_long_tailed_items_end_together) {
  std::mt19937_64 random(4);
  std::lognormal_distribution<double> length(7.5, 1.0);
  std::vector<Cost> costs(2000);
  for (Cost& cost : costs) cost = std::clamp(static_cast<Cost>(length(random)), Cost{64}, Cost{32768});
  const Speeds speeds = {1000, 1000, 500, 1000, 970, 1000, 1100, 1000};
  const double total = static_cast<double>(std::accumulate(costs.begin(), costs.end(), Cost{0}));
  const double perfect = total / std::accumulate(speeds.begin(), speeds.end(), 0.0);
  EXPECT_LE(latest_end(partition_by_speed(costs, speeds), costs, speeds), 1.0001 * perfect);
}

TEST(PartitionBySpeed, speeds_out_of_range_are_errors) {
  EXPECT_THROW((void)partition_by_speed(std::vector<Cost>{1}, Speeds{}), InputError);
  EXPECT_THROW((void)partition_by_speed(std::vector<Cost>{1}, Speeds{1, 0}), InputError);
  EXPECT_THROW((void)partition_by_speed(std::vector<Cost>{1}, Speeds{1, std::int64_t{1} << 32}), InputError);
  EXPECT_THROW((void)partition_by_speed(std::vector<Cost>{-1}, Speeds{1, 2}), InputError);
}

RC_GTEST_PROP(PartitionBySpeed, of_a_few_items_is_near_the_optimum, ()) {
  const std::vector<Cost> costs = *cost_lists(7);
  const Speeds speeds = *rc::gen::container<Speeds>(
      3, rc::gen::element<std::int64_t>(1, 2, 3, 500, 1000, std::int64_t{1} << 31));
  const Partition partition = partition_by_speed(costs, speeds);
  RC_ASSERT(partition.size() == 3);
  RC_ASSERT(holds_every_item_once(partition, costs.size()));
  std::vector<Cost> sums(3, 0);
  const double optimum = earliest_end(costs, speeds, sums);
  const double end = latest_end(partition, costs, speeds);
  RC_ASSERT(end >= optimum);
  RC_ASSERT(3 * end <= 5 * optimum);  // guaranteed by longest processing time first (Friesen, 1987)
  RC_ASSERT(partition == partition_by_speed(costs, speeds));
}

struct SpeedAdversary {
  std::string name;
  std::vector<Cost> costs;
  double end;  ///< for speeds 1, 2 and 4

  friend void PrintTo(const SpeedAdversary& adversary, std::ostream* out) { *out << adversary.name; }
};

class AdversarialSpeeds : public testing::TestWithParam<SpeedAdversary> {};

TEST_P(AdversarialSpeeds, end_at_the_optimum) {
  const auto& [name, costs, end] = GetParam();
  const Speeds speeds = {1, 2, 4};
  const Partition partition = partition_by_speed(costs, speeds);
  EXPECT_TRUE(holds_every_item_once(partition, costs.size()));
  EXPECT_DOUBLE_EQ(latest_end(partition, costs, speeds), end);
}

constexpr Cost huge_share = Cost{1} << 40;

INSTANTIATE_TEST_SUITE_P(
    Inputs, AdversarialSpeeds,
    testing::Values(SpeedAdversary{"all_equal", std::vector<Cost>(70, 5), 50},
                    SpeedAdversary{"one_giant", {400, 3, 3, 3, 3, 3, 3}, 100},
                    SpeedAdversary{"powers_of_two", {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}, 292.5},
                    SpeedAdversary{"two_clusters", {40, 40, 40, 20, 20, 20, 10, 10, 10}, 30},
                    SpeedAdversary{"fewer_items_than_groups", {8, 4}, 2},
                    SpeedAdversary{"one_item_a_group", {4, 8, 16}, 4},
                    SpeedAdversary{"zeros", std::vector<Cost>(9, 0), 0},
                    SpeedAdversary{"huge", std::vector<Cost>(7, huge_share),
                                   static_cast<double>(huge_share)}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace evenkeel
