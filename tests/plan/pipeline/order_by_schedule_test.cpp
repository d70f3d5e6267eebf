#include "plan/pipeline/order_by_schedule.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/list_checks.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;

constexpr std::int64_t many = std::int64_t{1} << 20;

RunOrder as_given(std::size_t count) {
  RunOrder order(count);
  std::iota(order.begin(), order.end(), std::int64_t{0});
  return order;
}

std::int64_t end_time_of(PipelineShape shape, const std::vector<Cost>& costs, const RunOrder& order) {
  std::vector<Cost> in_order;
  for (const std::int64_t at : order) in_order.push_back(costs[static_cast<std::size_t>(at)]);
  return PipelineSimulation(shape, std::ssize(costs)).end_time(in_order);
}

std::int64_t first_end_of_all_orders(PipelineShape shape, const std::vector<Cost>& costs) {
  RunOrder order = as_given(costs.size());
  std::int64_t first = end_time_of(shape, costs, order);
  while (std::ranges::next_permutation(order).found)
    first = std::min(first, end_time_of(shape, costs, order));
  return first;
}

RunOrder chosen(PipelineShape shape, const std::vector<Cost>& costs, std::int64_t max_steps = many) {
  return order_by_schedule(shape, costs, std::vector<RunOrder>{as_given(costs.size())}, max_steps);
}

// There are more orders than may be simulated, so the result was observed, not proven.
TEST(OrderBySchedule, is_optimal_for_these_costs_with_a_small_budget) {
  const std::vector<std::pair<PipelineShape, std::vector<Cost>>> examples{
      {{4, 1}, {3, 9, 1, 4, 7}},     {{4, 1}, {10, 10, 30, 10, 10, 10}},       {{3, 2}, {6, 2, 9, 1, 5, 4}},
      {{2, 3}, {8, 8, 3, 20, 1, 5}}, {{8, 1}, {1000, 936, 512, 77, 640, 333}},
  };
  for (const auto& [shape, costs] : examples) {
    const std::int64_t steps = 200 * simulation_steps(shape, std::ssize(costs));
    EXPECT_EQ(end_time_of(shape, costs, chosen(shape, costs, steps)), first_end_of_all_orders(shape, costs))
        << shape.stages << " stages, " << shape.chunks << " chunks, " << testing::PrintToString(costs);
  }
}

TEST(OrderBySchedule, is_the_first_candidate_if_order_does_not_matter) {
  EXPECT_THAT(chosen({1, 1}, {3, 1, 2}), ElementsAre(0, 1, 2));
  EXPECT_THAT(chosen({4, 1}, {5, 5, 5}), ElementsAre(0, 1, 2));
  EXPECT_THAT(chosen({4, 1}, {5}), ElementsAre(0));
  EXPECT_TRUE(chosen({4, 1}, {}).empty());
}

TEST(OrderBySchedule, is_the_first_candidate_if_a_simulation_takes_too_long) {
  const std::vector<Cost> costs{3, 1, 2};
  EXPECT_THAT(chosen({max_steps_of_an_order, 1}, costs), ElementsAre(0, 1, 2));
  EXPECT_THAT(chosen({1 << 20, 1 << 20}, costs), ElementsAre(0, 1, 2));
}

// Both have costs 2, 2, 1, 1, and are evaluated before any others.
TEST(OrderBySchedule, breaks_ties_in_favor_of_the_first_candidate) {
  const std::vector<Cost> costs{2, 1, 2, 1};
  const std::vector<RunOrder> alike{{0, 2, 1, 3}, {2, 0, 3, 1}};
  EXPECT_EQ(order_by_schedule({2, 1}, costs, alike, 0), alike[0]);
  EXPECT_EQ(order_by_schedule({2, 1}, costs, std::vector{alike[1], alike[0]}, 0), alike[1]);
}

TEST(OrderBySchedule, works_for_costs_near_the_maximum) {
  const std::vector<Cost> costs{1, 3, 2};
  std::vector<Cost> large;
  for (const Cost cost : costs) large.push_back(cost << 60);
  EXPECT_EQ(chosen({2, 1}, large), chosen({2, 1}, costs));
}

RC_GTEST_PROP(OrderBySchedule, is_optimal_if_all_orders_can_be_tried, ()) {
  const PipelineShape shape{*rc::gen::inRange<std::int64_t>(1, 5), *rc::gen::inRange<std::int64_t>(1, 4)};
  const auto count = *rc::gen::inRange<std::size_t>(1, 6);
  const auto costs = *rc::gen::container<std::vector<Cost>>(count, rc::gen::inRange<Cost>(0, 60));
  RC_ASSERT(end_time_of(shape, costs, chosen(shape, costs)) == first_end_of_all_orders(shape, costs));
}

RC_GTEST_PROP(OrderBySchedule, never_ends_later_than_a_candidate_however_little_is_simulated, ()) {
  const PipelineShape shape{*rc::gen::inRange<std::int64_t>(1, 7), *rc::gen::inRange<std::int64_t>(1, 4)};
  const auto count = *rc::gen::inRange<std::size_t>(1, 20);
  const auto costs = *rc::gen::container<std::vector<Cost>>(count, rc::gen::inRange<Cost>(0, 60));
  std::vector<RunOrder> candidates;
  const RunOrder given = as_given(count);
  const auto order_of = [](const auto& pairs) {
    RunOrder order;
    for (const auto& pair : pairs) order.push_back(pair.second);
    return order;
  };
  for (int c = 0; c < 3; ++c) {
    std::vector<std::pair<int, std::int64_t>> keyed;
    for (const std::int64_t at : given) keyed.emplace_back(*rc::gen::inRange(0, 1000), at);
    std::ranges::sort(keyed);
    candidates.push_back(order_of(keyed));
  }
  const auto max_steps = *rc::gen::element<std::int64_t>(0, 500, 20'000);
  const RunOrder order = order_by_schedule(shape, costs, candidates, max_steps);
  RC_ASSERT(is_permutation(order, std::ssize(costs)));
  RC_ASSERT(order == order_by_schedule(shape, costs, candidates, max_steps));
  for (const RunOrder& candidate : candidates)
    RC_ASSERT(end_time_of(shape, costs, order) <= end_time_of(shape, costs, candidate));
}

}  // namespace
}  // namespace evenkeel
