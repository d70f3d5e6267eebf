#include "cost/cost_fit.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace evenkeel {
namespace {

using Observations = std::vector<CostObservation>;

constexpr TimeModel machine{0.02, 3e-6, 1e-9};

/// Returns micro-batches with 1 to 8 samples of 100 to 8000 tokens.
Observations measured(const TimeModel& times, std::size_t n, double noise = 0) {
  std::mt19937_64 random(9);
  std::normal_distribution<double> error(1, noise);
  Observations observations(n);
  for (std::size_t i = 0; i < n; ++i) {
    CostObservation& each = observations[i];
    for (std::uint64_t sample = 0; sample <= random() % 8; ++sample) {
      const auto length = static_cast<std::int64_t>(100 + random() % 7900);
      each.tokens += length;
      each.squares += static_cast<double>(length * length);
    }
    each.seconds = times(each) * (noise > 0 ? error(random) : 1);
  }
  return observations;
}

void expect_near(const TimeModel& fit, const TimeModel& wanted, double tolerance) {
  EXPECT_NEAR(fit.overhead, wanted.overhead, tolerance * wanted.overhead);
  EXPECT_NEAR(fit.linear, wanted.linear, tolerance * wanted.linear);
  EXPECT_NEAR(fit.quadratic, wanted.quadratic, tolerance * wanted.quadratic);
}

TEST(FitTimeModel, finds_the_coefficients_of_exact_times) {
  const std::optional<TimeModel> fit = fit_time_model(measured(machine, 40));
  ASSERT_TRUE(fit);
  expect_near(*fit, machine, 1e-6);
  EXPECT_EQ(cost_model_of(*fit), (CostModel{3000, 1}));
  EXPECT_EQ(overhead_cost_of(*fit), 20'000'000);
}

TEST(FitTimeModel, noise_of_two_percent_leaves_it_within_ten) {
  const std::optional<TimeModel> fit = fit_time_model(measured(machine, 400, 0.02));
  ASSERT_TRUE(fit);
  expect_near(*fit, machine, 0.1);
}

TEST(FitTimeModel, a_few_stalls_hardly_change_the_fit) {
  Observations observations = measured(machine, 200, 0.005);
  for (std::size_t i = 0; i < observations.size(); i += 20) observations[i].seconds *= 20;
  const std::optional<TimeModel> fit = fit_time_model(observations);
  ASSERT_TRUE(fit);
  expect_near(*fit, machine, 0.1);
}

TEST(FitTimeModel, no_coefficient_is_negative) {
  // Times that decrease with length: the best line with nonnegative coefficients is constant and explains
  // nothing.
  Observations falling = measured(machine, 40);
  for (CostObservation& each : falling) each.seconds = 1 / (1 + static_cast<double>(each.tokens));
  EXPECT_EQ(fit_time_model(falling), std::nullopt);
  // Times that grow more slowly than length: no quadratic part.
  Observations concave = measured(machine, 40);
  for (CostObservation& each : concave) each.seconds = 1e-4 * std::sqrt(static_cast<double>(each.tokens));
  const std::optional<TimeModel> fit = fit_time_model(concave);
  ASSERT_TRUE(fit);
  EXPECT_EQ(fit->quadratic, 0);
  EXPECT_GT(fit->linear, 0);
  EXPECT_EQ(cost_model_of(*fit), CostModel::tokens());
}

TEST(FitTimeModel, refuses_too_few_observations) {
  EXPECT_EQ(fit_time_model({}), std::nullopt);
  EXPECT_EQ(fit_time_model(measured(machine, 15)), std::nullopt);
  Observations broken = measured(machine, 16);
  EXPECT_TRUE(fit_time_model(broken));
  broken[3].seconds = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(fit_time_model(broken), std::nullopt);
}

TEST(FitTimeModel, refuses_observations_that_cannot_distinguish_tokens_from_squares) {
  EXPECT_EQ(fit_time_model(Observations(100, CostObservation{1000, 1e6, 0.02})), std::nullopt);
  Observations one_length;
  for (int samples = 1; samples <= 40; ++samples)
    one_length.push_back({samples * 500, samples * 250'000.0, samples * 0.01});
  EXPECT_EQ(fit_time_model(one_length), std::nullopt);
  EXPECT_EQ(fit_time_model(Observations(100, CostObservation{0, 0, 0.02})), std::nullopt);
}

TEST(FitTimeModel, counts_the_overhead_of_micro_batches_that_are_all_full_as_their_tokens) {
  Observations full = measured(machine, 40);
  for (CostObservation& each : full) {
    each.tokens = 16'384;
    each.seconds = machine(each);
  }
  const std::optional<TimeModel> fit = fit_time_model(full);
  ASSERT_TRUE(fit);
  expect_near(*fit, {0, machine.linear + machine.overhead / 16'384, machine.quadratic}, 1e-6);
}

TEST(FitTimeModel, finds_the_overhead_if_one_micro_batch_in_twenty_is_not_full) {
  Observations packed = measured(machine, 40);
  for (std::size_t i = 0; i < packed.size(); ++i) {
    packed[i].tokens = i % 20 == 19 ? 2000 : 16'384;
    packed[i].seconds = machine(packed[i]);
  }
  const std::optional<TimeModel> fit = fit_time_model(packed);
  ASSERT_TRUE(fit);
  expect_near(*fit, machine, 1e-6);
}

TEST(CostModelOf, keeps_proportions_in_small_integers) {
  EXPECT_EQ(cost_model_of({0, 1e-6, 0}), (CostModel{1, 0}));
  EXPECT_EQ(cost_model_of({0, 0, 1e-9}), (CostModel{0, 16}));
  EXPECT_EQ(cost_model_of({0, 24576e-9, 1e-9}), (CostModel{24576, 1}));
  EXPECT_EQ(cost_model_of({0, 100e-9, 1e-9}), (CostModel{1600, 16}));
  EXPECT_EQ(overhead_cost_of({2e-3, 1e-6, 0}), 2000);
}

/// Returns the machine's times, with lengths in other units.
Observations scaled(double factor) {
  Observations observations = measured(machine, 40);
  for (CostObservation& each : observations) each.seconds *= factor;
  return observations;
}

TEST(FitTimeModel, seconds_of_any_size_make_the_same_integers) {
  for (const double factor : {1e-290, 1e-100, 1e100, 1e306}) {
    const std::optional<TimeModel> fit = fit_time_model(scaled(factor));
    ASSERT_TRUE(fit) << factor;
    EXPECT_EQ(cost_model_of(*fit), (CostModel{3000, 1})) << factor;
    EXPECT_EQ(overhead_cost_of(*fit), 20'000'000) << factor;
  }
}

TEST(FitTimeModel, seconds_at_the_ends_of_what_a_double_holds_make_a_usable_model_or_none) {
  constexpr double least = std::numeric_limits<double>::denorm_min();
  constexpr double most = std::numeric_limits<double>::max();
  for (const double other : {least, 1e-310, 1e-300, 1.0, 1e300, most}) {
    for (const double one : {least, 1e-310, 1.0, most}) {
      Observations observations = measured(machine, 40);
      for (std::size_t i = 0; i < observations.size(); ++i)
        observations[i].seconds = i % 2 == 0 ? one : other;
      const std::optional<TimeModel> fit = fit_time_model(observations);
      if (!fit) continue;
      for (const double c : {fit->overhead, fit->linear, fit->quadratic})
        EXPECT_TRUE(std::isfinite(c) && c >= 0) << one << " " << other;
      const CostModel model = cost_model_of(*fit);
      EXPECT_GE(model.linear, 0);
      EXPECT_GE(model.quadratic, 0);
      EXPECT_GT(model.linear + model.quadratic, 0);
      EXPECT_GE(overhead_cost_of(*fit), 0);
    }
  }
}

TEST(FitTimeModel, an_overhead_that_dwarfs_the_work_still_sums_within_64_bits) {
  EXPECT_LE(overhead_cost_of({1e300, 1e-300, 0}), std::numeric_limits<std::int64_t>::max() / 50'000);
}

RC_GTEST_PROP(FitTimeModel, finds_any_machine_from_exact_times, ()) {
  const auto times = [](double unit) { return unit * *rc::gen::inRange(0, 1000); };
  const TimeModel any{times(1e-4), times(1e-8), times(1e-11)};
  RC_PRE(any.linear + any.quadratic > 0);
  const Observations observations = measured(any, 60);
  const std::optional<TimeModel> fit = fit_time_model(observations);
  RC_ASSERT(fit.has_value());
  for (const CostObservation& each : observations)
    RC_ASSERT(std::abs((*fit)(each)-each.seconds) <= 1e-6 * each.seconds);
}

}  // namespace
}  // namespace evenkeel
