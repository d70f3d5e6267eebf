#include "balance/partition/assignment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>

#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

using testing::ElementsAre;
using Values = std::vector<std::int64_t>;

std::int64_t value_of(const Values& values, const std::vector<std::int64_t>& columns) {
  std::int64_t value = 0;
  for (std::size_t row = 0; row < columns.size(); ++row)
    value += values[row * columns.size() + static_cast<std::size_t>(columns[row])];
  return value;
}

std::vector<std::int64_t> identity(std::int64_t n) {
  std::vector<std::int64_t> columns(static_cast<std::size_t>(n));
  std::iota(columns.begin(), columns.end(), 0);
  return columns;
}

/// Finds the optimum by trying every permutation.
std::int64_t best_value(const Values& values, std::int64_t n) {
  std::vector<std::int64_t> columns = identity(n);
  std::int64_t best = 0;
  do {
    best = std::max(best, value_of(values, columns));
  } while (std::ranges::next_permutation(columns).found);
  return best;
}

bool is_permutation_of_columns(std::vector<std::int64_t> columns) {
  std::ranges::sort(columns);
  return columns == identity(static_cast<std::int64_t>(columns.size()));
}

Values any_values(std::int64_t n) {
  const std::int64_t end = *rc::gen::element<std::int64_t>(1, 3, 100, std::int64_t{1} << 40);
  return *rc::gen::container<Values>(static_cast<std::size_t>(n * n),
                                     rc::gen::resize(100, rc::gen::inRange<std::int64_t>(0, end)));
}

TEST(BestAssignment, gives_up_the_largest_value_if_the_total_grows) {
  const Values values = {9, 8,  //
                         8, 1};
  EXPECT_EQ(best_assignment(values, 2), (Assignment{{1, 0}, 16, 16}));
}

TEST(BestAssignment, is_empty_for_an_empty_matrix) {
  EXPECT_EQ(best_assignment({}, 0), Assignment{});
  EXPECT_EQ(good_assignment({}, 0), Assignment{});
  EXPECT_EQ(best_assignment(Values{7}, 1), (Assignment{{0}, 7, 7}));
}

TEST(BestAssignment, rejects_values_that_do_not_form_a_square_matrix) {
  EXPECT_THROW((void)best_assignment(Values{1, 2, 3}, 2), InputError);
  EXPECT_THROW((void)best_assignment(Values{-1}, 1), InputError);
  EXPECT_THROW((void)good_assignment(Values{1}, -1), InputError);
  EXPECT_THROW((void)good_assignment(Values(4, std::int64_t{1} << 61), 2), InputError);
}

TEST(GoodAssignment, swaps_pairs_after_taking_the_largest_values_first) {
  const Values values = {9, 8,  //
                         8, 1};
  EXPECT_EQ(good_assignment(values, 2), (Assignment{{1, 0}, 16, 17}));
}

TEST(GoodAssignment, is_optimal_if_each_row_has_its_maximum_in_a_different_column) {
  constexpr std::int64_t n = 300;
  Values values(n * n, 1);
  for (std::int64_t row = 0; row < n; ++row)
    values[static_cast<std::size_t>(row * n + (row * 7 + 3) % n)] = 1000 + row;
  const Assignment assignment = good_assignment(values, n);
  EXPECT_EQ(assignment.value, assignment.upper_bound);
  EXPECT_EQ(assignment.value, best_assignment(values, n).value);
}

RC_GTEST_PROP(BestAssignment, is_the_optimum, ()) {
  const std::int64_t n = *rc::gen::inRange<std::int64_t>(1, 8);
  const Values values = any_values(n);
  const Assignment assignment = best_assignment(values, n);
  RC_ASSERT(is_permutation_of_columns(assignment.column_of_row));
  RC_ASSERT(assignment.value == value_of(values, assignment.column_of_row));
  RC_ASSERT(assignment.value == best_value(values, n));
}

RC_GTEST_PROP(GoodAssignment, lies_between_half_the_optimum_and_its_bound, ()) {
  const std::int64_t n = *rc::gen::inRange<std::int64_t>(1, 40);
  const Values values = any_values(n);
  const Assignment good = good_assignment(values, n);
  const std::int64_t optimum = best_assignment(values, n).value;
  RC_ASSERT(is_permutation_of_columns(good.column_of_row));
  RC_ASSERT(good.value == value_of(values, good.column_of_row));
  RC_ASSERT(good.value <= optimum);
  RC_ASSERT(2 * good.value >= optimum);  // guaranteed if the largest values are taken first
  RC_ASSERT(optimum <= good.upper_bound);
}

}  // namespace
}  // namespace evenkeel
