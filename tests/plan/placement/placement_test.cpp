#include "plan/placement/placement.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "evenkeel/base/error.hpp"
#include "plan/dealt_in_turn.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing_support::dealt_in_turn;
using Groups = std::vector<std::vector<Item>>;

/// Owns all inputs of a placement, which the spans refer to.
struct PlacedJob {
  std::vector<WorldRank> owners;
  std::vector<std::int64_t> bytes;
  std::vector<int> dp_of_rank;
  std::vector<int> node_of_rank;

  [[nodiscard]] PlacementInput input() const { return {owners, bytes, dp_of_rank, node_of_rank}; }
};

std::vector<WorldRank> ranks(const std::vector<int>& numbers) {
  std::vector<WorldRank> owners;
  for (const int number : numbers) owners.emplace_back(number);
  return owners;
}

/// Returns the same parts, each at the index of its DP rank.
Partition place_parts(const Partition& parts, const PlacementInput& input) {
  return reorder_parts(parts, best_placement(parts, input).part_of_rank);
}

/// Returns the bytes of items whose owner is not a rank of the DP rank that gets them.
std::int64_t bytes_moved(const Partition& parts, const PlacedJob& job) {
  std::int64_t moved = 0;
  for (std::int64_t dp = 0; dp < parts.size(); ++dp) {
    for (const Item item : parts[dp]) {
      const auto at = static_cast<std::size_t>(item);
      if (job.dp_of_rank[job.owners[at].index()] != dp) moved += job.bytes[at];
    }
  }
  return moved;
}

/// Returns the minimum over all assignments of parts to DP ranks.
std::int64_t fewest_bytes_moved(const Partition& parts, const PlacedJob& job) {
  Groups groups = parts.to_vectors();
  std::vector<std::size_t> order(groups.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::int64_t fewest = bytes_moved(parts, job);
  do {
    Groups labelled;
    for (const std::size_t part : order) labelled.push_back(groups[part]);
    fewest = std::min(fewest, bytes_moved(Partition{labelled}, job));
  } while (std::ranges::next_permutation(order).found);
  return fewest;
}

/// Returns items distributed over `dp` parts in turn, with random owners among dp * 2 ranks on nodes of 4 and
/// random sizes.
PlacedJob random_job(std::mt19937_64& random, int dp, std::int64_t n) {
  PlacedJob job;
  for (int rank = 0; rank < 2 * dp; ++rank) {
    job.dp_of_rank.push_back(rank / 2);
    job.node_of_rank.push_back(rank / 4);
  }
  for (std::int64_t i = 0; i < n; ++i) {
    job.owners.emplace_back(static_cast<int>(random() % static_cast<std::uint64_t>(2 * dp)));
    job.bytes.push_back(static_cast<std::int64_t>(random() % 5000));
  }
  return job;
}

TEST(PlaceParts, gives_each_part_to_the_rank_that_owns_most_of_it) {
  const PlacedJob job{ranks({1, 1, 0, 1}), {10, 10, 10, 1}, {0, 1}, {}};
  const Partition parts{Groups{{0, 1}, {2, 3}}};
  EXPECT_THAT(place_parts(parts, job.input()).to_vectors(),
              ElementsAre(ElementsAre(2, 3), ElementsAre(0, 1)));
}

TEST(PlaceParts, any_rank_of_the_dp_rank_counts) {
  // World ranks 0 and 2 make up DP rank 0.
  const PlacedJob job{ranks({1, 3, 2, 0}), {5, 5, 5, 5}, {0, 1, 0, 1}, {}};
  const Partition parts{Groups{{0, 1}, {2, 3}}};
  EXPECT_EQ(bytes_moved(place_parts(parts, job.input()), job), 0);
}

TEST(PlaceParts, changes_nothing_without_a_gain) {
  const PlacedJob job{ranks({0, 1, 0, 1}), {5, 5, 5, 5}, {0, 1}, {}};
  const Partition parts{Groups{{0, 1}, {3, 2}}};
  EXPECT_EQ(place_parts(parts, job.input()), parts);
}

TEST(PlaceParts, prefers_ranks_on_the_owners_node) {
  // Rank 1 holds parts 0 and 1. It gets the larger one, and rank 2, on its node, the other.
  const PlacedJob job{ranks({1, 1, 0}), {9, 8, 0}, {0, 1, 2}, {0, 1, 1}};
  const Partition parts{Groups{{0}, {1}, {2}}};
  EXPECT_THAT(place_parts(parts, job.input()).to_vectors(),
              ElementsAre(ElementsAre(2), ElementsAre(0), ElementsAre(1)));
  PlacementInput blind = job.input();
  blind.node_weight = 0;
  EXPECT_THAT(place_parts(parts, blind).to_vectors(),
              ElementsAre(ElementsAre(1), ElementsAre(0), ElementsAre(2)));
}

TEST(PlaceParts, weights_bytes_of_a_rank_more_than_bytes_on_its_node) {
  // Part 0 has 3 bytes on DP rank 0 and 4 bytes on DP rank 1; both are on node 0. Part 1 has no bytes.
  const PlacedJob job{ranks({0, 1}), {3, 4}, {0, 1}, {0, 0}};
  const Placement placement = best_placement(Partition{Groups{{0, 1}, {}}}, job.input());
  EXPECT_THAT(placement.part_of_rank, ElementsAre(1, 0));
  EXPECT_EQ(placement.identity_value, 2 * 3 + 4);
  EXPECT_EQ(placement.value, 3 + 2 * 4);
}

TEST(PlaceParts, keeps_groups_and_the_order_of_their_items) {
  const PlacedJob job{ranks({1, 1, 1}), {1, 1, 1}, {0, 1}, {}};
  EXPECT_THAT(place_parts(Partition{Groups{{2, 0, 1}, {}}}, job.input()).to_vectors(),
              ElementsAre(ElementsAre(), ElementsAre(2, 0, 1)));
}

TEST(PlaceParts, is_close_to_the_bound_above_256_parts) {
  std::mt19937_64 random(1);
  const PlacedJob job = random_job(random, 300, 3000);
  PlacementInput input = job.input();
  input.node_weight = 0;
  const Partition parts = dealt_in_turn(3000, 300);
  const Placement placement = best_placement(parts, input);
  EXPECT_LE(placement.value, placement.upper_bound);
  EXPECT_GT(4 * placement.value, 3 * placement.upper_bound);
  EXPECT_EQ(placement.value - placement.identity_value,
            2 * (bytes_moved(parts, job) - bytes_moved(place_parts(parts, input), job)));
}

TEST(PlaceParts, no_parts_and_no_items_are_fine) {
  EXPECT_EQ(place_parts(Partition{}, PlacementInput{}), Partition{});
  const PlacedJob job{{}, {}, {0, 1}, {0, 0}};
  EXPECT_EQ(place_parts(dealt_in_turn(0, 2), job.input()).size(), 2);
}

TEST(PlaceParts, an_index_out_of_range_is_an_error_that_names_it) {
  const Partition parts{Groups{{0}, {1}}};
  const PlacedJob good{ranks({0, 1}), {1, 1}, {0, 1}, {0, 0}};
  EXPECT_NO_THROW((void)place_parts(parts, good.input()));
  const auto expect_refused = [&](auto change) {
    PlacedJob job = good;
    change(job);
    EXPECT_THROW((void)place_parts(parts, job.input()), InputError);
  };
  expect_refused([](PlacedJob& job) { job.owners.pop_back(); });
  expect_refused([](PlacedJob& job) { job.bytes.push_back(1); });
  expect_refused([](PlacedJob& job) { job.bytes[0] = -1; });
  expect_refused([](PlacedJob& job) { job.bytes[0] = std::int64_t{1} << 60; });
  expect_refused([](PlacedJob& job) { job.owners[0] = WorldRank{2}; });
  expect_refused([](PlacedJob& job) { job.dp_of_rank[0] = 2; });
  expect_refused([](PlacedJob& job) { job.node_of_rank[0] = -1; });
  expect_refused([](PlacedJob& job) { job.node_of_rank.pop_back(); });
  PlacementInput input = good.input();
  input.node_weight = 3;  // above the own weight
  EXPECT_THROW((void)place_parts(parts, input), InputError);
}

TEST(PlaceParts, a_part_goes_only_to_ranks_of_the_speed_it_was_made_for) {
  // Every part is owned by the next rank; ranks 0 and 2 have the same speed.
  const PlacedJob job{ranks({1, 2, 0}), {9, 9, 9}, {0, 1, 2}, {}};
  const Partition parts{Groups{{0}, {1}, {2}}};
  const std::vector<std::int64_t> speeds{1000, 500, 1000};
  PlacementInput input = job.input();
  EXPECT_THAT(best_placement(parts, input).part_of_rank, ElementsAre(2, 0, 1));
  input.speeds = speeds;
  EXPECT_THAT(best_placement(parts, input).part_of_rank, ElementsAre(2, 1, 0));
  const std::vector<std::int64_t> too_few{1000, 500};
  input.speeds = too_few;
  EXPECT_THROW((void)best_placement(parts, input), InputError);
}

RC_GTEST_PROP(PlaceParts, of_several_speeds_is_the_best_placement_within_each, (std::uint64_t seed)) {
  const int dp = *rc::gen::inRange(1, 7);
  std::mt19937_64 random(seed);
  const PlacedJob job = random_job(random, dp, 20);
  std::vector<std::int64_t> speeds;
  for (int r = 0; r < dp; ++r) speeds.push_back(*rc::gen::inRange<std::int64_t>(1, 4));
  PlacementInput input = job.input();
  input.node_weight = 0;
  input.speeds = speeds;
  const Partition parts = dealt_in_turn(20, dp);
  std::vector<std::int64_t> order(static_cast<std::size_t>(dp));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::int64_t fewest = bytes_moved(parts, job);
  do {
    bool allowed = true;
    for (std::size_t r = 0; r < order.size(); ++r)
      allowed = allowed && speeds[r] == speeds[static_cast<std::size_t>(order[r])];
    if (allowed) fewest = std::min(fewest, bytes_moved(reorder_parts(parts, order), job));
  } while (std::ranges::next_permutation(order).found);
  RC_ASSERT(bytes_moved(place_parts(parts, input), job) == fewest);
}

RC_GTEST_PROP(PlaceParts, moves_as_few_bytes_as_the_best_of_all_labellings, (std::uint64_t seed)) {
  const int dp = *rc::gen::inRange(1, 8);
  const std::int64_t n = *rc::gen::inRange<std::int64_t>(0, 30);
  std::mt19937_64 random(seed);
  const PlacedJob job = random_job(random, dp, n);
  PlacementInput input = job.input();
  input.node_weight = 0;
  const Partition parts = dealt_in_turn(n, dp);
  const Partition placed = place_parts(parts, input);
  const Placement placement = best_placement(parts, input);
  RC_ASSERT(bytes_moved(placed, job) == fewest_bytes_moved(parts, job));
  RC_ASSERT(placement.value - placement.identity_value ==
            input.own_weight * (bytes_moved(parts, job) - bytes_moved(placed, job)));
  Groups before = parts.to_vectors();
  Groups after = placed.to_vectors();
  std::ranges::sort(before);
  std::ranges::sort(after);
  RC_ASSERT(before == after);
}

}  // namespace
}  // namespace evenkeel
