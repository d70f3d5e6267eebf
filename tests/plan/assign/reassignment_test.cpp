#include "plan/assign/reassignment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "base/id_range.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/plan/step_plan.hpp"
#include "plan/dealt_in_turn.hpp"
#include "support/made_up_table.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using testing_support::dealt_in_turn;
using Groups = std::vector<std::vector<Item>>;

/// Items of one cost and size, each on a rank of the DP rank that owns it.
struct ReassignedJob {
  std::vector<Cost> costs;
  std::vector<std::int64_t> bytes;
  std::vector<WorldRank> owners;
  std::vector<int> dp_of_rank;
  std::vector<int> node_of_rank = {};
  std::vector<std::int64_t> speeds = {};

  [[nodiscard]] PlacementInput input() const { return {owners, bytes, dp_of_rank, node_of_rank, speeds}; }
  [[nodiscard]] std::vector<Item> items() const {
    std::vector<Item> all(costs.size());
    std::iota(all.begin(), all.end(), Item{0});
    return all;
  }
};

ReassignedJob job_of(std::vector<Cost> costs, const std::vector<int>& owners, int dp) {
  ReassignedJob job{costs, costs, {}, {}};
  for (const int owner : owners) job.owners.emplace_back(owner);
  for (int r = 0; r < dp; ++r) job.dp_of_rank.push_back(r);
  return job;
}

ReassignedJob random_job(std::mt19937_64& random, int dp, std::int64_t n, Cost largest) {
  ReassignedJob job;
  for (int r = 0; r < dp; ++r) job.dp_of_rank.push_back(r);
  for (std::int64_t i = 0; i < n; ++i) {
    job.owners.emplace_back(static_cast<int>(random() % static_cast<std::uint64_t>(dp)));
    job.costs.push_back(static_cast<Cost>(1 + random() % static_cast<std::uint64_t>(largest)));
    job.bytes.push_back(job.costs.back() + static_cast<std::int64_t>(random() % 3));
  }
  return job;
}

std::int64_t bytes_moved(const Partition& parts, const ReassignedJob& job) {
  std::int64_t moved = 0;
  for (std::int64_t dp = 0; dp < parts.size(); ++dp) {
    for (const Item item : parts[dp]) {
      const auto at = static_cast<std::size_t>(item);
      if (job.dp_of_rank[job.owners[at].index()] != dp) moved += job.bytes[at];
    }
  }
  return moved;
}

double last_end(const Partition& parts, const ReassignedJob& job) {
  const std::vector<Cost> sums = group_sums(parts, job.costs);
  double last = 0;
  for (std::size_t r = 0; r < sums.size(); ++r)
    last = std::max(
        last, static_cast<double>(sums[r]) / (job.speeds.empty() ? 1 : static_cast<double>(job.speeds[r])));
  return last;
}

/// The fewest bytes moved by any way to assign the items that keeps the rules.
std::int64_t fewest_bytes_moved(const Partition& start, const ReassignedJob& job,
                                const ReassignmentRules& rules) {
  const auto dp = static_cast<std::size_t>(start.size());
  const double latest = last_end(start, job) * (1 + static_cast<double>(rules.tolerance) / 1e6) + 1e-9;
  std::int64_t fewest = std::numeric_limits<std::int64_t>::max();
  std::vector<std::size_t> part(job.costs.size(), 0);
  while (true) {
    Groups groups(dp);
    for (std::size_t i = 0; i < part.size(); ++i) groups[part[i]].push_back(static_cast<Item>(i));
    bool allowed = true;
    for (std::size_t g = 0; g < dp; ++g)
      allowed =
          allowed && (!rules.equal_counts || groups[g].size() == start[static_cast<std::int64_t>(g)].size());
    const Partition parts{groups};
    if (allowed && last_end(parts, job) <= latest) fewest = std::min(fewest, bytes_moved(parts, job));
    std::size_t digit = 0;
    while (digit < part.size() && ++part[digit] == dp) part[digit++] = 0;
    if (digit == part.size()) return fewest;
  }
}

TEST(ReassignToOwners, exchanges_items_of_one_cost_that_belong_to_each_other) {
  const ReassignedJob job = job_of({5, 4, 5, 3}, {1, 0, 0, 1}, 2);
  const Partition moved = reassign_to_owners(Partition{Groups{{0, 1}, {2, 3}}}, job.costs, job.input(), {});
  EXPECT_THAT(moved.to_vectors(), ElementsAre(ElementsAre(1, 2), ElementsAre(0, 3)));
}

TEST(ReassignToOwners, moves_one_item_alone_where_the_tolerance_lets_it) {
  const ReassignedJob job = job_of({10, 10, 1, 10, 10}, {0, 0, 1, 1, 1}, 2);
  const Partition parts{Groups{{0, 1, 2}, {3, 4}}};
  EXPECT_THAT(reassign_to_owners(parts, job.costs, job.input(), {}).to_vectors(),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3, 4)));
  const Partition even{Groups{{0, 1}, {2, 3, 4}}};
  ReassignedJob other = job;
  other.owners[2] = WorldRank{0};
  EXPECT_THAT(reassign_to_owners(even, other.costs, other.input(), {}).to_vectors(),
              ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 4)));
  const ReassignedJob heavy = job_of({10, 10, 2, 10, 9}, {0, 0, 0, 1, 1}, 2);
  EXPECT_EQ(reassign_to_owners(even, heavy.costs, heavy.input(), {}), even);  // 22 against 21
  EXPECT_THAT(reassign_to_owners(even, heavy.costs, heavy.input(), {50'000, false}).to_vectors(),
              ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 4)));
  EXPECT_EQ(reassign_to_owners(even, heavy.costs, heavy.input(), {47'000, false}), even);
  EXPECT_EQ(reassign_to_owners(even, heavy.costs, heavy.input(), {50'000, true}), even);
}

TEST(ReassignToOwners, an_item_that_is_away_anyway_makes_room) {
  // Item 0 is owned by the second part, item 1 there by the third, which has no item to give for it.
  const ReassignedJob job = job_of({7, 7, 7}, {1, 2, 2}, 3);
  const Partition parts{Groups{{0}, {1}, {2}}};
  EXPECT_THAT(reassign_to_owners(parts, job.costs, job.input(), {}).to_vectors(),
              ElementsAre(ElementsAre(1), ElementsAre(0), ElementsAre(2)));
}

TEST(ReassignToOwners, exchanges_unequal_items_while_the_largest_part_grows_no_larger) {
  const ReassignedJob job = job_of({9, 4}, {1, 0}, 2);
  EXPECT_THAT(reassign_to_owners(Partition{Groups{{0}, {1}}}, job.costs, job.input(), {}).to_vectors(),
              ElementsAre(ElementsAre(1), ElementsAre(0)));
}

TEST(ReassignToOwners, leaves_what_nobody_in_the_mesh_owns) {
  ReassignedJob job = job_of({9, 4}, {1, 0}, 2);
  job.dp_of_rank = {-1, -1};
  const Partition parts{Groups{{0}, {1}}};
  EXPECT_EQ(reassign_to_owners(parts, job.costs, job.input(), {1'000'000, false}), parts);
  EXPECT_EQ(reassign_to_owners(Partition{}, {}, {}, {}), Partition{});
}

TEST(ReassignToOwners, takes_parts_of_some_of_the_items) {
  const ReassignedJob job = job_of({5, 8, 5, 8}, {1, 1, 0, 0}, 2);
  EXPECT_THAT(reassign_to_owners(Partition{Groups{{0}, {2}}}, job.costs, job.input(), {}).to_vectors(),
              ElementsAre(ElementsAre(2), ElementsAre(0)));
}

TEST(ReassignToOwners, refuses_lists_that_do_not_fit) {
  const ReassignedJob job = job_of({5, 5}, {0, 1}, 2);
  const Partition parts{Groups{{0}, {1}}};
  const auto expect_refused = [&](auto change, const Partition& of = Partition{Groups{{0}, {1}}}) {
    ReassignedJob bad = job;
    ReassignmentRules rules;
    change(bad, rules);
    EXPECT_THROW((void)reassign_to_owners(of, bad.costs, bad.input(), rules), InputError);
  };
  EXPECT_NO_THROW((void)reassign_to_owners(parts, job.costs, job.input(), {}));
  expect_refused([](ReassignedJob& bad, ReassignmentRules&) { bad.bytes.pop_back(); });
  expect_refused([](ReassignedJob& bad, ReassignmentRules&) { bad.owners[0] = WorldRank{2}; });
  expect_refused([](ReassignedJob& bad, ReassignmentRules&) { bad.dp_of_rank[0] = 2; });
  expect_refused([](ReassignedJob& bad, ReassignmentRules&) { bad.speeds = {1}; });
  expect_refused([](ReassignedJob& bad, ReassignmentRules&) { bad.speeds = {1, 0}; });
  expect_refused([](ReassignedJob& bad, ReassignmentRules&) { bad.node_of_rank = {0}; });
  expect_refused([](ReassignedJob&, ReassignmentRules& rules) { rules.tolerance = -1; });
  expect_refused([](ReassignedJob&, ReassignmentRules&) {}, Partition{Groups{{0}, {2}}});
}

TEST(ReassignToOwners, spares_most_of_the_bytes_that_could_be_spared) {
  std::mt19937_64 random(5);
  std::int64_t sparable = 0;
  std::int64_t spared = 0;
  for (int draw = 0; draw < 60; ++draw) {
    const ReassignedJob job = random_job(random, 2 + draw % 2, 8, 20);
    const Partition parts = dealt_in_turn(8, 2 + draw % 2);
    const ReassignmentRules rules{100'000, draw % 3 == 0};
    sparable += bytes_moved(parts, job) - fewest_bytes_moved(parts, job, rules);
    spared +=
        bytes_moved(parts, job) - bytes_moved(reassign_to_owners(parts, job.costs, job.input(), rules), job);
  }
  EXPECT_GT(10 * spared, 7 * sparable);
}

RC_GTEST_PROP(ReassignToOwners, of_items_alike_is_the_best_there_is, (std::uint64_t seed)) {
  const int dp = *rc::gen::inRange(1, 4);
  const std::int64_t n = *rc::gen::inRange<std::int64_t>(0, 9);
  std::mt19937_64 random(seed);
  ReassignedJob job = random_job(random, dp, n, 1);
  std::ranges::fill(job.bytes, 3);
  const Partition parts = dealt_in_turn(n, dp);
  const ReassignmentRules rules{0, true};
  RC_ASSERT(bytes_moved(reassign_to_owners(parts, job.costs, job.input(), rules), job) ==
            fewest_bytes_moved(parts, job, rules));
}

RC_GTEST_PROP(ReassignToOwners, never_moves_more_bytes_nor_passes_the_tolerance, (std::uint64_t seed)) {
  const int dp = *rc::gen::inRange(1, 9);
  const std::int64_t n = *rc::gen::inRange<std::int64_t>(0, 60);
  std::mt19937_64 random(seed);
  ReassignedJob job = random_job(random, dp, n, *rc::gen::element<Cost>(3, 100, Cost{1} << 40));
  if (*rc::gen::arbitrary<bool>()) {
    for (int r = 0; r < dp; ++r) job.node_of_rank.push_back(r / 2);
  }
  if (*rc::gen::arbitrary<bool>()) {
    for (int r = 0; r < dp; ++r) job.speeds.push_back(*rc::gen::inRange<std::int64_t>(1, 2000));
  }
  const ReassignmentRules rules{*rc::gen::element<std::int64_t>(0, 1000, 50'000, 1'000'000),
                                *rc::gen::arbitrary<bool>()};
  const Partition parts = dealt_in_turn(n, dp);
  const Partition moved = reassign_to_owners(parts, job.costs, job.input(), rules);
  RC_ASSERT(bytes_moved(moved, job) <= bytes_moved(parts, job));
  RC_ASSERT(best_placement(moved, job.input()).identity_value >=
            best_placement(parts, job.input()).identity_value);
  RC_ASSERT(last_end(moved, job) <=
            last_end(parts, job) * (1 + static_cast<double>(rules.tolerance) / 1e6) * (1 + 1e-12));
  std::vector<Item> all(moved.items().begin(), moved.items().end());
  std::ranges::sort(all);
  RC_ASSERT(all == job.items());
  for (std::int64_t r = 0; r < dp; ++r) {
    RC_ASSERT(!rules.equal_counts || moved[r].size() == parts[r].size());
    RC_ASSERT(std::ranges::is_sorted(moved[r]));
  }
  RC_ASSERT(reassign_to_owners(parts, job.costs, job.input(), rules) == moved);
}

RC_GTEST_PROP(StepPlan, a_tolerance_spares_tokens_and_costs_no_more_than_it_says, ()) {
  const int dp = *rc::gen::inRange(1, 6);
  const LengthTable table = testing_support::table_of(
      *rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, 61)), dp);
  PlanSettings settings;
  settings.dp = dp;
  for (int r = 0; r < dp; ++r) settings.dp_of_rank.push_back(r);
  settings.micro_batch.max_tokens = *rc::gen::inRange<std::int64_t>(60, 200);
  settings.mini_batches.count = *rc::gen::inRange<std::int64_t>(1, 4);
  settings.balance.equal_count = *rc::gen::arbitrary<bool>();
  const auto tokens_moved = [&](const StepPlan& plan) {
    std::int64_t moved = 0;
    for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
      for (const MicroBatchPlan& m : plan.ranks[r].micro_batches) {
        for (const EntryId entry : m.entries)
          moved += table[entry].owner.index() == r ? 0 : table[entry].shape.length();
      }
    }
    return moved;
  };
  const auto largest = [&](const StepPlan& plan, MiniBatchId mini_batch) {
    Cost most = 0;
    for (const DpRankPlan& rank : plan.ranks) {
      Cost cost = 0;
      for (const MicroBatchPlan& m : rank.micro_batches) cost += m.mini_batch == mini_batch ? m.cost : 0;
      most = std::max(most, cost);
    }
    return most;
  };
  const StepPlan before = plan_step({table, settings});
  settings.balance.placement_tolerance = 50'000;
  const StepPlan after = plan_step({table, settings});
  RC_ASSERT(tokens_moved(after) <= tokens_moved(before));
  RC_ASSERT(after.num_micro_batches() <= before.num_micro_batches());
  for (const MiniBatchId m : ids_below<MiniBatchId>(settings.mini_batches.count))
    RC_ASSERT(20 * largest(after, m) <= 21 * largest(before, m));
}

}  // namespace
}  // namespace evenkeel
