// Times of micro-batches on groups of several ranks: what can be derived from them about communication, and
// what cannot.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "cost/cost_fit.hpp"

namespace evenkeel {
namespace {

using Observations = std::vector<CostObservation>;

/// Attention takes as long as the linear part at 3000 tokens, and hides communication between nodes for
/// longer samples.
constexpr TimeModel machine_of_groups{0.02, 3e-6, 1e-9, 3e-7, 3e-6};
constexpr FitGroups unknown{.ranks_per_node = 4, .overlap = 1};

double seconds_on_group(const TimeModel& times, const FitGroups& groups, const CostObservation& seen) {
  const auto ranks = static_cast<double>(seen.ranks);
  const auto tokens = static_cast<double>(seen.tokens);
  const double hop = (seen.ranks <= groups.ranks_per_node ? times.inside_node : times.between_nodes).value();
  const double attention = times.quadratic * seen.squares;
  const double exposed = std::max(0.0, hop * (ranks - 1) * tokens - groups.overlap * attention);
  return times.overhead + (times.linear * tokens + attention + exposed) / ranks;
}

/// Returns micro-batches with 1 to 8 samples of up to `longest` tokens, on groups of 1 to `most` ranks, a
/// power of two.
Observations measured(const TimeModel& times, const FitGroups& groups, std::size_t n, double noise = 0,
                      std::uint64_t most = 16, std::int64_t longest = 8000) {
  std::mt19937_64 random(11);
  std::normal_distribution<double> error(1, noise);
  Observations observations(n);
  for (CostObservation& each : observations) {
    each.ranks = 1;
    while (static_cast<std::uint64_t>(each.ranks) < most && random() % 3 != 0) each.ranks *= 2;
    for (std::uint64_t sample = 0; sample <= random() % 8; ++sample) {
      const auto length =
          static_cast<std::int64_t>(100 + random() % static_cast<std::uint64_t>(longest - 100));
      each.tokens += length;
      each.squares += static_cast<double>(length * length);
    }
    each.seconds = seconds_on_group(times, groups, each) * (noise > 0 ? error(random) : 1);
  }
  return observations;
}

void expect_near_with_communication(const TimeModel& fit, const TimeModel& wanted, double tolerance) {
  EXPECT_NEAR(fit.overhead, wanted.overhead, tolerance * wanted.overhead);
  EXPECT_NEAR(fit.linear, wanted.linear, tolerance * wanted.linear);
  EXPECT_NEAR(fit.quadratic, wanted.quadratic, tolerance * wanted.quadratic);
  ASSERT_EQ(fit.inside_node.has_value(), wanted.inside_node.has_value());
  ASSERT_EQ(fit.between_nodes.has_value(), wanted.between_nodes.has_value());
  if (fit.inside_node) {
    EXPECT_NEAR(*fit.inside_node, *wanted.inside_node, tolerance * *wanted.inside_node);
  }
  if (fit.between_nodes) {
    EXPECT_NEAR(*fit.between_nodes, *wanted.between_nodes, tolerance * *wanted.between_nodes);
  }
}

/// Both links are slow enough to be visible despite any overlap.
TimeModel with_hops(double inside_node, double between_nodes) {
  TimeModel times = machine_of_groups;
  times.inside_node = inside_node;
  times.between_nodes = between_nodes;
  return times;
}

TEST(GroupTimes, determine_the_cost_of_partly_hidden_communication) {
  for (const double overlap : {0.0, 0.5, 1.0}) {
    FitGroups groups = unknown;
    groups.overlap = overlap;
    const TimeModel times = with_hops(1.5e-6, 4e-6);
    const std::optional<TimeModel> fit = fit_time_model(measured(times, groups, 300), groups);
    ASSERT_TRUE(fit) << overlap;
    expect_near_with_communication(*fit, times, 1e-6);
  }
}

TEST(GroupTimes, determine_it_despite_two_percent_of_noise) {
  for (const double overlap : {0.0, 0.5, 1.0}) {
    FitGroups groups = unknown;
    groups.overlap = overlap;
    const TimeModel times = with_hops(1.5e-6, 4e-6);
    const std::optional<TimeModel> fit = fit_time_model(measured(times, groups, 800, 0.02), groups);
    ASSERT_TRUE(fit) << overlap;
    expect_near_with_communication(*fit, times, 0.1);
  }
}

TEST(GroupTimes, a_few_stalls_hardly_change_the_fit) {
  for (const double overlap : {0.0, 0.5, 1.0}) {
    FitGroups groups = unknown;
    groups.overlap = overlap;
    const TimeModel times = with_hops(1.5e-6, 4e-6);
    Observations observations = measured(times, groups, 400, 0.005);
    for (std::size_t i = 0; i < observations.size(); i += 20) observations[i].seconds *= 20;
    const std::optional<TimeModel> fit = fit_time_model(observations, groups);
    ASSERT_TRUE(fit) << overlap;
    expect_near_with_communication(*fit, times, 0.1);
  }
}

TEST(GroupTimes, do_not_depend_on_earlier_assumptions) {
  const TimeModel times = with_hops(1.5e-6, 4e-6);
  const Observations observations = measured(times, unknown, 400, 0.01);
  for (const double assumed : {0.0, 1e-8, 1e-6, 1e-4}) {
    FitGroups groups = unknown;
    groups.inside_node.seconds = assumed;
    groups.between_nodes.tokens = assumed / 1e-6;
    const std::optional<TimeModel> fit = fit_time_model(observations, groups);
    ASSERT_TRUE(fit) << assumed;
    expect_near_with_communication(*fit, times, 0.1);
  }
}

TEST(GroupTimes, of_groups_inside_a_node_leave_links_between_nodes_as_they_are) {
  const TimeModel times = with_hops(1.5e-6, 4e-6);
  const std::optional<TimeModel> fit = fit_time_model(measured(times, unknown, 300, 0, 4), unknown);
  ASSERT_TRUE(fit);
  TimeModel wanted = times;
  wanted.between_nodes.reset();
  expect_near_with_communication(*fit, wanted, 1e-6);
}

TEST(GroupTimes, of_single_ranks_do_not_determine_communication) {
  FitGroups groups = unknown;
  groups.inside_node.seconds = 1e-6;
  groups.between_nodes.tokens = 0.1;
  for (const double noise : {0.0, 0.02}) {
    const Observations single = measured(machine_of_groups, unknown, 200, noise, 1);
    const std::optional<TimeModel> fit = fit_time_model(single, groups);
    ASSERT_TRUE(fit);
    EXPECT_EQ(fit->inside_node, std::nullopt);
    EXPECT_EQ(fit->between_nodes, std::nullopt);
    EXPECT_EQ(fit, fit_time_model(single));
  }
}

TEST(GroupTimes, refit_the_assumed_communication) {
  FitGroups groups = unknown;
  groups.inside_node.tokens = 0.5;
  groups.between_nodes.seconds = 4e-6;
  for (const double noise : {0.0, 0.02}) {
    const std::optional<TimeModel> fit =
        fit_time_model(measured(with_hops(1.5e-6, 4e-6), groups, 300, noise), groups);
    ASSERT_TRUE(fit);
    expect_near_with_communication(*fit, with_hops(1.5e-6, 4e-6), noise > 0 ? 0.1 : 1e-6);
  }
}

TEST(GroupTimes, keep_or_lower_the_assumption_if_all_communication_is_hidden) {
  // No sample is shorter than 3000 tokens, so 15 hops of 2e-7 s never become visible.
  const TimeModel times = with_hops(1e-8, 1e-8);
  for (const double noise : {0.0, 0.02}) {
    const Observations observations = measured(times, unknown, 400, noise, 16, 8000);
    FitGroups groups = unknown;
    groups.inside_node.seconds = 2e-9;
    const std::optional<TimeModel> low = fit_time_model(observations, groups);
    ASSERT_TRUE(low);
    EXPECT_EQ(low->inside_node, std::nullopt);
    EXPECT_EQ(low->between_nodes, std::nullopt);
    groups.inside_node.seconds = groups.between_nodes.seconds = 1e-4;
    const std::optional<TimeModel> high = fit_time_model(observations, groups);
    ASSERT_TRUE(high);
    expect_near_with_communication(
        *high, {times.overhead, times.linear, times.quadratic, high->inside_node, high->between_nodes},
        noise > 0 ? 0.1 : 1e-6);
    ASSERT_TRUE(high->inside_node && high->between_nodes);
    EXPECT_LT(*high->inside_node, 1e-5);
    EXPECT_LT(*high->between_nodes, 1e-5);
    // With it, no communication is exposed.
    for (const CostObservation& each : observations) {
      EXPECT_NEAR(seconds_on_group(*high, unknown, each), each.seconds, (0.001 + 5 * noise) * each.seconds);
    }
  }
}

TEST(GroupTimes, of_one_group_size_cannot_distinguish_communication_from_tokens) {
  FitGroups groups = unknown;
  groups.overlap = 0;
  groups.inside_node.seconds = 1e-6;
  Observations observations = measured(with_hops(1e-6, 1e-6), groups, 100);
  for (CostObservation& each : observations) {
    each.ranks = 2;
    each.seconds = seconds_on_group(with_hops(1e-6, 1e-6), groups, each);
  }
  const std::optional<TimeModel> fit = fit_time_model(observations, groups);
  ASSERT_TRUE(fit);
  expect_near_with_communication(
      *fit, {machine_of_groups.overhead, machine_of_groups.linear, machine_of_groups.quadratic}, 1e-6);
}

TEST(GroupTimes, fewer_than_four_of_a_link_do_not_determine_its_cost) {
  const TimeModel times = with_hops(1.5e-6, 9e-6);
  Observations observations = measured(times, unknown, 100, 0, 4);
  for (int more = 0; more < 4; ++more) {
    const std::optional<TimeModel> fit = fit_time_model(observations, unknown);
    ASSERT_TRUE(fit);
    EXPECT_FALSE(fit->between_nodes) << more;
    CostObservation wide{1000 + 100 * more, 1e5, 0, 8};
    wide.seconds = seconds_on_group(times, unknown, wide);
    observations.push_back(wide);
  }
  const std::optional<TimeModel> fit = fit_time_model(observations, unknown);
  ASSERT_TRUE(fit);
  expect_near_with_communication(*fit, times, 1e-6);
}

TEST(GroupTimes, groups_without_ranks_are_invalid) {
  Observations observations = measured(machine_of_groups, unknown, 16);
  EXPECT_TRUE(fit_time_model(observations, unknown));
  observations[3].ranks = 0;
  EXPECT_FALSE(fit_time_model(observations, unknown));
}

TEST(GroupTimes, give_integers_fine_enough_for_communication_if_squares_are_free) {
  const TimeModel flat{1e-3, 24576e-10, 0, 333e-10};
  EXPECT_EQ(cost_model_of(flat, TokenUnits::fine), (CostModel{24576, 0}));
  EXPECT_EQ(cost_of_seconds(*flat.inside_node, flat, TokenUnits::fine), 333);
  EXPECT_EQ(overhead_cost_of(flat, TokenUnits::fine), 10'000'000);
  EXPECT_EQ(cost_model_of(machine_of_groups, TokenUnits::fine), cost_model_of(machine_of_groups));
}

RC_GTEST_PROP(GroupTimes, of_any_machine_are_explained, ()) {
  const auto drawn = [](double unit) { return unit * *rc::gen::inRange(0, 1000); };
  TimeModel any{drawn(1e-4), drawn(1e-8), drawn(1e-11), drawn(1e-8), drawn(1e-8)};
  RC_PRE(any.linear > 0 && any.quadratic > 0);
  FitGroups groups = unknown;
  groups.overlap = 0.25 * *rc::gen::inRange(0, 5);
  groups.inside_node.seconds = drawn(1e-8);
  groups.between_nodes.tokens = drawn(1e-2);
  const Observations observations = measured(any, groups, 200);
  const std::optional<TimeModel> fit = fit_time_model(observations, groups);
  RC_ASSERT(fit.has_value());
  TimeModel used = *fit;
  if (!used.inside_node) used.inside_node = groups.inside_node(fit->linear, fit->quadratic);
  if (!used.between_nodes) used.between_nodes = groups.between_nodes(fit->linear, fit->quadratic);
  // Three observations with exposed communication per link are not enough.
  RC_ASSERT(std::ranges::count_if(observations, [&](const CostObservation& each) {
              return std::abs(seconds_on_group(used, groups, each) - each.seconds) > 1e-3 * each.seconds;
            }) <= 6);
}

}  // namespace
}  // namespace evenkeel
