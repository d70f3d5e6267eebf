#include "stream/former.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include "stream/step_cost_estimate.hpp"
#include "stream_events.hpp"

namespace evenkeel::stream {
namespace {

/// Returns one sample per group, with these lengths, ready in this order.
std::vector<WaitingGroup> waiting(const std::vector<std::int64_t>& lengths) {
  std::vector<WaitingGroup> groups;
  for (const std::int64_t length : lengths) {
    const std::int64_t number = std::ssize(groups);
    groups.push_back({Uid(number), number, 0, {{number, 0, 0, length, 0, 0}}});
  }
  return groups;
}

PlanSettings on_ranks(int dp) {
  PlanSettings plan;
  plan.dp = dp;
  plan.balance.overhead = 0;
  return plan;
}

StreamSettings looking_ahead(std::int64_t steps) {
  StreamSettings settings;
  settings.look_ahead = steps;
  return settings;
}

std::vector<std::int64_t> numbers(const std::optional<StepFormed>& formed) {
  std::vector<std::int64_t> numbers;
  if (formed)
    for (const FormedGroup& group : formed->groups) numbers.push_back(std::get<std::int64_t>(group.uid));
  return numbers;
}

using Numbers = std::vector<std::int64_t>;

TEST(Former, forms_no_step_until_it_is_full_or_the_stream_has_ended) {
  const StreamSettings stream;
  const PlanSettings plan = on_ranks(2);
  const auto groups = waiting({5, 5, 5});
  FormStepInput problem{groups, {}, 0, 0, 4, false, stream, plan};
  EXPECT_FALSE(form_step(problem));
  problem.ended = true;
  EXPECT_EQ(numbers(form_step(problem)), (Numbers{0, 1, 2}));
  problem.waiting = {};
  EXPECT_FALSE(form_step(problem));
}

TEST(Former, long_samples_go_together_and_not_one_in_each_step) {
  const StreamSettings stream = looking_ahead(1);
  const PlanSettings plan = on_ranks(2);
  // In order, 90 and 10 are together twice, so the steps end at 90 + 90; otherwise, they end at 90 + 10.
  const auto groups = waiting({90, 10, 90, 10});
  const auto formed = form_step({groups, {}, 3, 7, 2, false, stream, plan});
  EXPECT_EQ(numbers(formed), (Numbers{0, 2}));
  EXPECT_EQ(formed->step, 3);
  EXPECT_EQ(formed->version, 7);
  EXPECT_EQ(formed->passed, (std::vector<PassedOver>{{std::int64_t{1}, 1}}));
}

TEST(Former, takes_the_earliest_of_equal_groups) {
  const StreamSettings stream = looking_ahead(2);
  const PlanSettings plan = on_ranks(2);
  const auto groups = waiting({20, 20, 10, 20, 20, 10});
  EXPECT_EQ(numbers(form_step({groups, {}, 0, 0, 2, false, stream, plan})), (Numbers{0, 1}));
}

TEST(Former, a_step_that_wastes_time_waits_for_companions_until_it_is_its_turn) {
  const StreamSettings stream = looking_ahead(1);
  const PlanSettings plan = on_ranks(2);
  auto groups = waiting({90, 10, 10, 10});
  EXPECT_EQ(numbers(form_step({groups, {}, 0, 0, 2, false, stream, plan})), (Numbers{1, 2}));
  groups[0].passed = 1;
  EXPECT_EQ(numbers(form_step({groups, {}, 0, 0, 2, false, stream, plan})).front(), 0);
}

TEST(Former, groups_about_to_go_stale_are_taken_first_by_version) {
  StreamSettings stream = looking_ahead(2);
  stream.max_staleness = 2;
  const PlanSettings plan = on_ranks(2);
  auto groups = waiting({10, 10, 10, 10, 10, 10});
  for (WaitingGroup& group : groups) group.samples[0].version = 5;
  groups[4].samples[0].version = 3;
  groups[5].samples[0].version = 3;
  EXPECT_EQ(numbers(form_step({groups, {}, 0, 5, 2, false, stream, plan})), (Numbers{4, 5}));
  // At version 4, they can wait for one more step, unless groups that are equally urgent then will arrive.
  stream.look_ahead = 0;
  EXPECT_EQ(numbers(form_step({groups, {}, 0, 4, 2, false, stream, plan})), (Numbers{0, 1}));
  EXPECT_EQ(numbers(form_step({groups, Numbers{3}, 0, 4, 2, false, stream, plan})), (Numbers{0, 4}));
}

StreamSettings masking(std::int64_t max_staleness, std::int64_t look_ahead) {
  StreamSettings stream = looking_ahead(look_ahead);
  stream.max_staleness = max_staleness;
  stream.on_stale = OnStale::mask;
  return stream;
}

TEST(Former, groups_that_are_stale_already_wait_for_companions_like_others) {
  const StreamSettings stream = masking(1, 1);
  const PlanSettings plan = on_ranks(2);
  const auto groups = waiting({90, 10, 90, 10});
  EXPECT_EQ(numbers(form_step({groups, {}, 0, 5, 2, false, stream, plan})), (Numbers{0, 2}));
  EXPECT_EQ(numbers(form_step({groups, Numbers{0, 0}, 0, 5, 2, false, stream, plan})), (Numbers{0, 2}))
      << "nor do stale groups that are still expected hurry anyone";
}

TEST(Former, groups_that_are_stale_already_give_way_to_those_that_can_be_in_time) {
  const StreamSettings stream = masking(1, 0);
  const PlanSettings plan = on_ranks(2);
  auto groups = waiting({10, 10, 10, 10});
  for (const std::size_t fresh : {2, 3}) groups[fresh].samples[0].version = 4;
  EXPECT_EQ(numbers(form_step({groups, {}, 0, 5, 2, false, stream, plan})), (Numbers{2, 3}));
}

TEST(Former, a_group_with_a_stale_sample_is_as_urgent_as_the_oldest_of_the_others) {
  const StreamSettings stream = masking(1, 0);
  const PlanSettings plan = on_ranks(2);
  auto groups = waiting({10, 10, 10});
  for (WaitingGroup& group : groups) group.samples[0].version = 5;
  groups[2].samples = {{2, 0, 0, 10, 0, 0}, {3, 1, 0, 10, 4, 0}};
  EXPECT_EQ(numbers(form_step({groups, {}, 0, 5, 1, false, stream, plan})), (Numbers{2}));
  groups[2].samples[1].version = 5;
  EXPECT_EQ(numbers(form_step({groups, {}, 0, 5, 1, false, stream, plan})), (Numbers{0}));
}

TEST(Former, lists_stale_samples_of_a_step_to_be_masked) {
  StreamSettings stream;
  stream.max_staleness = 1;
  stream.on_stale = OnStale::mask;
  const PlanSettings plan = on_ranks(1);
  auto groups = waiting({10, 10});
  groups[1].samples[0].version = 5;
  const auto formed = form_step({groups, {}, 0, 5, 2, false, stream, plan});
  EXPECT_EQ(formed->masked, Numbers{0});
}

TEST(Former, counts_shared_prompts_once_and_uses_the_groups_of_flexible_ranks) {
  PlanSettings plan = on_ranks(4);
  plan.micro_batch.max_tokens = 1000;
  WaitingGroup group{Uid(std::int64_t{0}), 0, 0, {{0, 0, 100, 10, 0, 0}, {1, 1, 100, 10, 0, 0}}};
  const auto time = [&] {
    const StepCostEstimate estimate(std::span(&group, 1), 1, plan);
    return estimate.time_of(estimate.sums_of(std::vector<std::size_t>{0})).all;
  };
  EXPECT_EQ(time(), 110) << "each sample on a rank";
  plan.sharing = PrefixSharing::prompts;
  EXPECT_EQ(time(), 120) << "the prompt once, both samples on one rank";
  plan.sharing = PrefixSharing::none;
  plan.strategy = ContextTreeSettings{4};
  plan.balance.communication.inside_node = 0;
  plan.balance.communication.between_nodes = 0;
  EXPECT_EQ(time(), 55) << "on all ranks";
}

RC_GTEST_PROP(StepCostEstimate, is_never_above_the_plan, ()) {
  const auto lengths = *rc::gen::nonEmpty(
      rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, 1000)));
  PlanSettings plan = on_ranks(*rc::gen::inRange(1, 5));
  plan.balance.cost = *rc::gen::element(CostModel::tokens(), CostModel::flops_7b());
  plan.balance.overhead = *rc::gen::element<std::int64_t>(0, 500'000);
  plan.micro_batch.max_tokens = 1000;
  const auto groups = waiting(lengths);
  std::vector<std::size_t> all(groups.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  const StepCostEstimate estimate(groups, std::ssize(groups), plan);
  RC_ASSERT(estimate.time_of(estimate.sums_of(all)).all <= planned_time(groups, plan) * (1 + 1e-9));
}

RC_GTEST_PROP(Former, without_look_ahead_it_is_first_come_first_served, ()) {
  const auto lengths = *rc::gen::nonEmpty(
      rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, 1000)));
  const auto groups = waiting(lengths);
  const auto of_step = *rc::gen::inRange<std::int64_t>(1, std::ssize(groups) + 1);
  const StreamSettings stream;
  const PlanSettings plan = on_ranks(*rc::gen::inRange(1, 5));
  Numbers first(static_cast<std::size_t>(of_step));
  std::iota(first.begin(), first.end(), 0);
  const auto formed = form_step({groups, {}, 0, 0, of_step, false, stream, plan});
  RC_ASSERT(numbers(formed) == first);
  RC_ASSERT(formed->passed.empty());
}

RC_GTEST_PROP(Former, is_deterministic_and_takes_whole_waiting_groups, ()) {
  std::vector<WaitingGroup> groups;
  const auto number = *rc::gen::inRange<std::int64_t>(1, 40);
  for (std::int64_t g = 0; g < number; ++g) {
    groups.push_back({Uid(g), g, *rc::gen::inRange<std::int64_t>(0, 8), {}});
    for (std::int64_t i = 0; i <= g % 3; ++i)
      groups.back().samples.push_back({3 * g + i, i, 5, *rc::gen::inRange<std::int64_t>(1, 999),
                                       *rc::gen::inRange<std::int64_t>(0, 4), 1});
  }
  StreamSettings stream = looking_ahead(*rc::gen::inRange<std::int64_t>(0, 4));
  if (*rc::gen::arbitrary<bool>()) stream.max_staleness = *rc::gen::inRange<std::int64_t>(0, 4);
  const PlanSettings plan = on_ranks(3);
  const auto of_step = *rc::gen::inRange<std::int64_t>(1, 9);
  const FormStepInput problem{groups, {}, 0, 4, of_step, true, stream, plan};
  const auto formed = form_step(problem);
  RC_ASSERT(formed == form_step(problem));
  RC_ASSERT(std::ssize(formed->groups) == std::min(of_step, number));
  std::int64_t before = -1;
  for (const FormedGroup& group : formed->groups) {
    const std::int64_t g = std::get<std::int64_t>(group.uid);
    RC_ASSERT(g > before);
    RC_ASSERT(group.samples == g % 3 + 1);
    before = g;
  }
}

/// Finds the minimum total time over all ways to divide these groups into steps, and over those in which
/// `next` is one step.
class BruteForce {
 public:
  BruteForce(const StepCostEstimate& price, std::size_t of_step) : price_(price), of_step_(of_step) {}

  [[nodiscard]] double least(unsigned left) {
    if (left == 0) return 0;
    const auto known = known_.find(left);
    if (known != known_.end()) return known->second;
    double least = std::numeric_limits<double>::infinity();
    // Tries every step that contains the first of the remaining groups.
    for (unsigned step = left; step != 0; step = (step - 1) & left) {
      const auto size = static_cast<std::size_t>(std::popcount(step));
      if ((step & left & (~left + 1)) == 0 || size != std::min<std::size_t>(of_step_, std::popcount(left)))
        continue;
      least = std::min(least, time_of(step) + this->least(left & ~step));
    }
    return known_[left] = least;
  }
  [[nodiscard]] double time_of(unsigned step) const {
    std::vector<std::size_t> groups;
    for (std::size_t g = 0; g < price_.size(); ++g)
      if ((step >> g & 1U) != 0) groups.push_back(g);
    return price_.time_of(price_.sums_of(groups)).all;
  }

 private:
  const StepCostEstimate& price_;
  std::size_t of_step_;
  std::map<unsigned, double> known_;
};

TEST(Former, is_as_good_as_brute_force_over_small_windows) {
  std::mt19937_64 draw(7);
  int best = 0;
  constexpr int cases = 200;
  for (int c = 0; c < cases; ++c) {
    const std::size_t of_step = 2 + draw() % 2;
    std::vector<std::int64_t> lengths;
    for (std::size_t g = 0; g < 3 * of_step; ++g)
      lengths.push_back(draw() % 4 == 0 ? static_cast<std::int64_t>(500 + draw() % 1500)
                                        : static_cast<std::int64_t>(20 + draw() % 200));
    const auto groups = waiting(lengths);
    const StreamSettings stream = looking_ahead(2);
    PlanSettings plan = on_ranks(static_cast<int>(2 + draw() % 3));
    plan.balance.cost = CostModel::flops_7b();
    const auto formed = form_step({groups, {}, 0, 0, static_cast<std::int64_t>(of_step), true, stream, plan});
    unsigned next = 0;
    for (const std::int64_t number : numbers(formed)) next |= 1U << number;
    const StepCostEstimate price(groups, static_cast<std::int64_t>(of_step), plan);
    BruteForce brute(price, of_step);
    const unsigned all = (1U << groups.size()) - 1;
    const double chosen = brute.time_of(next) + brute.least(all & ~next);
    EXPECT_LE(chosen, brute.least(all) * 1.05);
    best += chosen <= brute.least(all) * (1 + 1e-9) ? 1 : 0;
  }
  EXPECT_GE(best, cases * 95 / 100);
}

}  // namespace
}  // namespace evenkeel::stream
