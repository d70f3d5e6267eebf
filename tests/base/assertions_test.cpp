#include "evenkeel/base/assertions.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "evenkeel/base/ids.hpp"

// The level is evaluated where a macro is used, so each level can be tested independently of the build's.
// Functions in the headers above keep the build's level.
#undef EVENKEEL_ASSERTION_LEVEL

namespace evenkeel {
namespace {

enum class Colour : std::uint8_t { red, green };

std::int64_t num_steps() {
  return 5;
}

/// Counts how often a condition is evaluated.
struct Counted {
  bool holds() {
    ++times;
    return true;
  }
  int times = 0;
};

#define EVENKEEL_ASSERTION_LEVEL 1

void size_of(std::int64_t step) {
  EVENKEEL_PRECONDITION(cheap, 0 <= step && step < num_steps(), step, num_steps());
}

void require_true(bool holds) {
  EVENKEEL_PRECONDITION(cheap, holds);
}

TEST(AssertionsDeathTest, a_violated_precondition_prints_itself_its_values_and_its_place) {
  size_of(4);
  EXPECT_DEATH(
      size_of(7),
      "^precondition violated: 0 <= step && step < num_steps\\(\\) \\(step = 7, num_steps\\(\\) = 5\\) "
      "at tests/base/assertions_test\\.cpp:[0-9]+ in size_of\n$");
}

TEST(AssertionsDeathTest, a_condition_without_values_is_printed_alone) {
  EXPECT_DEATH(require_true(false), "precondition violated: holds at tests/");
}

TEST(AssertionsDeathTest, an_invariant_is_called_an_invariant) {
  const int rows = 2;
  EVENKEEL_INVARIANT(cheap, rows == 2, rows);
  EXPECT_DEATH(EVENKEEL_INVARIANT(cheap, rows == 3, rows),
               "invariant violated: rows == 3 \\(rows = 2\\) at ");
}

TEST(AssertionsDeathTest, prints_values_of_every_kind) {
  const std::uint64_t greatest = ~std::uint64_t{0};
  const DpRank rank{-3};
  const std::string name = "a, b";
  EXPECT_DEATH(
      EVENKEEL_PRECONDITION(cheap, false, greatest, rank, name, "text", 0.25, true, Colour::green),
      "\\(greatest = 18446744073709551615, rank = -3, name = 'a, b', \"text\" = 'text', 0.25 = 0.25, "
      "true = true, Colour::green = 1\\)");
}

TEST(AssertionsDeathTest, commas_inside_of_a_value_do_not_separate_names) {
  const auto sum = [](int a, int b) { return a + b; };
  EXPECT_DEATH(EVENKEEL_PRECONDITION(cheap, false, sum(1, 2), sum(sum(1, 1), 3)),
               "\\(sum\\(1, 2\\) = 3, sum\\(sum\\(1, 1\\), 3\\) = 5\\)");
}

TEST(Assertions, evaluate_a_true_condition_once_and_never_its_values) {
  Counted condition;
  Counted value;
  EVENKEEL_PRECONDITION(cheap, condition.holds(), value.holds());
  EXPECT_EQ(condition.times, 1);
  EXPECT_EQ(value.times, 0);
}

TEST(Assertions, above_the_level_are_not_evaluated) {
  Counted condition;
  EVENKEEL_PRECONDITION(thorough, condition.holds());
  EVENKEEL_INVARIANT(communication, condition.holds());
  EXPECT_EQ(condition.times, 0);
  static_assert(EVENKEEL_ASSERTS(cheap) && !EVENKEEL_ASSERTS(thorough) && !EVENKEEL_ASSERTS(communication));
}

constexpr int half_of(int even) {
  EVENKEEL_PRECONDITION(cheap, even % 2 == 0, even);
  return even / 2;
}

TEST(Assertions, hold_in_constant_expressions) {
  static_assert(half_of(6) == 3);
}

#undef EVENKEEL_ASSERTION_LEVEL
#define EVENKEEL_ASSERTION_LEVEL 0

TEST(Assertions, are_not_evaluated_in_a_build_without_assertions) {
  Counted condition;
  EVENKEEL_PRECONDITION(cheap, condition.holds(), condition.holds());
  EXPECT_EQ(condition.times, 0);
  static_assert(!EVENKEEL_ASSERTS(cheap));
}

#undef EVENKEEL_ASSERTION_LEVEL
#define EVENKEEL_ASSERTION_LEVEL 3

TEST(Assertions, are_all_evaluated_at_the_highest_level) {
  Counted condition;
  EVENKEEL_PRECONDITION(cheap, condition.holds());
  EVENKEEL_PRECONDITION(thorough, condition.holds());
  EVENKEEL_PRECONDITION(communication, condition.holds());
  EXPECT_EQ(condition.times, 3);
}

}  // namespace
}  // namespace evenkeel
