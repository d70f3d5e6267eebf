#include "balance/grid/grid_partition.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <string>

#include "balance/adversarial_costs.hpp"
#include "balance/bins/capped_partition.hpp"
#include "balance/fewest_bins.hpp"
#include "balance/random_costs.hpp"
#include "evenkeel/balance/karmarkar_karp.hpp"
#include "evenkeel/base/error.hpp"
#include "evenkeel/cost/cost_model.hpp"

namespace evenkeel {
namespace {

using test::joined;
using test::powers_of_two;
using Sizes = std::vector<std::int64_t>;

/// Returns the time of rows that are synchronized at every column, and the cost of the most expensive row.
struct GridCost {
  Cost meeting = 0;
  Cost dearest_row = 0;
};

GridCost cost_of(const std::vector<Cost>& sums, GridShape shape) {
  GridCost cost;
  std::vector<Cost> rows(static_cast<std::size_t>(shape.rows), 0);
  for (std::int64_t j = 0; j < shape.columns; ++j) {
    Cost peak = 0;
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      const Cost sum = sums[static_cast<std::size_t>(row * shape.columns + j)];
      peak = std::max(peak, sum);
      rows[static_cast<std::size_t>(row)] += sum;
    }
    cost.meeting += peak;
  }
  cost.dearest_row = std::ranges::max(rows);
  return cost;
}

GridCost cost_of(const Partition& grid, std::span<const Cost> costs, GridShape shape) {
  return cost_of(group_sums(grid, costs), shape);
}

/// Returns the lowest possible cost of synchronized rows, by trying every assignment of a few items.
class EveryGrid {
 public:
  EveryGrid(std::span<const Cost> costs, std::span<const std::int64_t> sizes, BinLimits limits,
            GridShape shape)
      : costs_(costs),
        sizes_(sizes),
        limits_(limits),
        shape_(shape),
        cells_(static_cast<std::size_t>(shape.rows * shape.columns)) {}

  Cost lowest_meeting_cost(std::size_t next = 0) {
    if (next == costs_.size()) return synchronized_cost();
    Cost lowest = std::numeric_limits<Cost>::max();
    for (Cell& cell : cells_) {
      const bool has_room = cell.size + sizes_[next] <= limits_.max_size && cell.count < limits_.max_items;
      const bool is_new = cell.count == 0;
      if (has_room) {
        const Cell before = cell;
        cell = {cell.cost + costs_[next], cell.size + sizes_[next], cell.count + 1};
        lowest = std::min(lowest, lowest_meeting_cost(next + 1));
        cell = before;
      }
      if (is_new) break;  // cells without items are interchangeable
    }
    return lowest;
  }

 private:
  struct Cell {
    Cost cost = 0;
    std::int64_t size = 0;
    std::int64_t count = 0;
  };

  /// If cells may be ordered freely, similar cells share a column.
  [[nodiscard]] Cost synchronized_cost() const {
    std::vector<Cost> sums;
    for (const Cell& cell : cells_) sums.push_back(cell.cost);
    std::ranges::sort(sums, std::ranges::greater{});
    Cost meeting = 0;
    for (std::size_t first = 0; first < sums.size(); first += static_cast<std::size_t>(shape_.rows))
      meeting += sums[first];
    return meeting;
  }

  std::span<const Cost> costs_;
  std::span<const std::int64_t> sizes_;
  BinLimits limits_;
  GridShape shape_;
  std::vector<Cell> cells_;
};

void expect_sound(const Partition& grid, const std::vector<Cost>& costs, BinItems items, BinLimits limits,
                  GridShape shape) {
  ASSERT_EQ(grid.size(), shape.rows * shape.columns);
  ASSERT_TRUE(holds_every_item_once(grid, costs.size()));
  ASSERT_TRUE(keeps_limits(grid, items, limits));
}

Sizes long_tailed_lengths(std::uint64_t seed, std::size_t n) {
  std::mt19937_64 random(seed);
  std::lognormal_distribution<double> length(7.5, 1.0);
  Sizes lengths(n);
  for (std::int64_t& each : lengths)
    each = std::clamp(static_cast<std::int64_t>(length(random)), std::int64_t{64}, std::int64_t{32768});
  return lengths;
}

TEST(PartitionIntoGrid, costly_items_share_a_column) {
  const std::vector<Cost> costs = {8, 7, 2, 2, 1};
  const Partition grid = partition_into_grid(costs, costs, {}, {2, 2});
  EXPECT_EQ(group_sums(grid, costs), (std::vector<Cost>{8, 2, 8, 2}));
}

TEST(PartitionIntoGrid, a_column_of_long_items_is_filled_as_far_as_the_cap_allows) {
  // One item of 10 determines its column's time, so the other row may also use 10 there: 5 and 5.
  const std::vector<Cost> costs = {10, 5, 5, 3, 3, 3, 3};
  const Partition grid = partition_into_grid(costs, costs, {.max_size = 10}, {2, 2});
  EXPECT_EQ(cost_of(grid, costs, {2, 2}).meeting, 16);
}

TEST(PartitionIntoGrid, columns_are_in_descending_order_of_cost) {
  const Sizes lengths = long_tailed_lengths(3, 300);
  const GridShape shape{4, 8};
  const std::vector<Cost> sums = group_sums(partition_into_grid(lengths, lengths, {}, shape), lengths);
  std::vector<Cost> peaks(8, 0);
  for (std::size_t cell = 0; cell < sums.size(); ++cell)
    peaks[cell % 8] = std::max(peaks[cell % 8], sums[cell]);
  EXPECT_TRUE(std::ranges::is_sorted(peaks, std::ranges::greater{}));
}

TEST(PartitionIntoGrid, one_row_never_waits_and_one_column_is_a_partition) {
  const Sizes lengths = long_tailed_lengths(5, 64);
  const Cost total = std::accumulate(lengths.begin(), lengths.end(), Cost{0});
  const Partition row = partition_into_grid(lengths, lengths, {}, {1, 6});
  EXPECT_EQ(cost_of(row, lengths, {1, 6}).meeting, total);
  const Partition column = partition_into_grid(lengths, lengths, {}, {6, 1});
  EXPECT_LE(cost_of(column, lengths, {6, 1}).meeting, total / 6 + total / 2000);
}

TEST(PartitionIntoGrid, cells_are_empty_if_there_are_fewer_items) {
  const Partition grid = partition_into_grid(Sizes{4}, Sizes{4}, {.max_size = 4}, {2, 3});
  expect_sound(grid, {4}, Sizes{4}, {.max_size = 4}, {2, 3});
  const Partition none = partition_into_grid({}, {}, {.max_size = 4}, {2, 3});
  expect_sound(none, {}, {}, {.max_size = 4}, {2, 3});
}

TEST(PartitionIntoGrid, impossible_shapes_and_limits_are_errors) {
  EXPECT_THROW((void)partition_into_grid(Sizes{1}, Sizes{1}, {}, {0, 3}), InputError);
  EXPECT_THROW((void)partition_into_grid(Sizes{1}, Sizes{1}, {}, {3, 0}), InputError);
  EXPECT_THROW((void)partition_into_grid(Sizes{1, 2}, Sizes{1}, {}, {1, 1}), InputError);
  EXPECT_THROW((void)partition_into_grid(Sizes{5}, Sizes{5}, {.max_size = 4}, {1, 1}), LimitError);
  EXPECT_THROW((void)partition_into_grid(Sizes{3, 3, 3}, Sizes{3, 3, 3}, {.max_size = 4}, {1, 2}),
               LimitError);
}

/// Differencing over rows, then over each row's columns, most expensive column first.
Cost two_level_meeting_cost(const std::vector<Cost>& costs, GridShape shape) {
  std::vector<Cost> all;
  const Partition rows = karmarkar_karp(costs, shape.rows);
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    std::vector<Cost> own;
    for (const Item item : rows[row]) own.push_back(costs[static_cast<std::size_t>(item)]);
    std::vector<Cost> sums = group_sums(karmarkar_karp(own, shape.columns), own);
    std::ranges::sort(sums, std::ranges::greater{});
    all.insert(all.end(), sums.begin(), sums.end());
  }
  return cost_of(all, shape).meeting;
}

/// Returns the waiting time at the columns, divided by that of two-stage differencing, which does not know
/// the cap.
double share_of_two_level_wait(const Sizes& lengths, std::int64_t cap, GridShape shape) {
  std::vector<Cost> costs;
  for (const std::int64_t length : lengths) costs.push_back(CostModel::flops_7b()(length));
  const Cost mean = std::accumulate(costs.begin(), costs.end(), Cost{0}) / shape.rows;
  const Partition grid = partition_into_grid(costs, lengths, {.max_size = cap}, shape);
  expect_sound(grid, costs, lengths, {.max_size = cap}, shape);
  return static_cast<double>(cost_of(grid, costs, shape).meeting - mean) /
         static_cast<double>(two_level_meeting_cost(costs, shape) - mean);
}

// 64 ranks with 16 micro-batches: the waiting time is at most a third of that of two-stage differencing.
TEST(PartitionIntoGrid, waits_less_than_a_third_of_two_level_differencing) {
  const Sizes lengths = long_tailed_lengths(8, 8192);
  for (const std::int64_t cap : {32768, 65536})
    EXPECT_LE(3 * share_of_two_level_wait(lengths, cap, {64, 16}), 1) << cap;
}

// The free capacity is only half a micro-batch per rank; differencing exceeds the cap in every second one.
TEST(PartitionIntoGrid, waits_less_than_a_third_of_that_if_micro_batches_are_nearly_full) {
  const GridShape shape{64, 16};
  for (const std::int64_t cap : {32768, 40960}) {
    Sizes lengths = long_tailed_lengths(1, 20'000);
    std::int64_t room = shape.rows * (2 * shape.columns - 1) * cap / 2;
    const auto full =
        std::ranges::find_if(lengths, [&](std::int64_t length) { return (room -= length) < 0; });
    lengths.erase(full, lengths.end());
    EXPECT_LE(3 * share_of_two_level_wait(lengths, cap, shape), 1) << cap;
  }
}

TEST(PartitionIntoGrid, rows_end_together_if_no_item_costs_more_than_a_cell) {
  const GridShape shape{8, 4};
  const Sizes lengths = long_tailed_lengths(2, 2000);
  const Partition grid = partition_into_grid(lengths, lengths, {}, shape);
  const Cost total = std::accumulate(lengths.begin(), lengths.end(), Cost{0});
  const GridCost cost = cost_of(grid, lengths, shape);
  EXPECT_LE(cost.dearest_row, total / 8 + total / 80'000);
  EXPECT_LE(cost.meeting, total / 8 + total / 8'000);
}

RC_GTEST_PROP(PartitionIntoGrid, of_a_few_items_is_near_the_optimum, ()) {
  const std::vector<Cost> costs = *rc::gen::container<std::vector<Cost>>(
      *rc::gen::inRange<std::size_t>(1, 8), rc::gen::resize(100, rc::gen::inRange<Cost>(0, 30)));
  const BinLimits limits{.max_size = largest_of(costs) + *rc::gen::inRange<std::int64_t>(0, 40)};
  const std::int64_t needed = std::max<std::int64_t>(count_groups(costs, costs, limits).needed, 1);
  const GridShape shape{2, (needed + 1) / 2};
  RC_PRE(shape.columns <= 3);
  const Partition grid = partition_into_grid(costs, costs, limits, shape);
  expect_sound(grid, costs, costs, limits, shape);
  const Cost optimum = EveryGrid(costs, costs, limits, shape).lowest_meeting_cost();
  const Cost meeting = cost_of(grid, costs, shape).meeting;
  RC_ASSERT(meeting >= optimum);
  RC_ASSERT(2 * meeting <= 3 * optimum);  // about 1 in 40,000 exceeds 5 / 4
}

RC_GTEST_PROP(PartitionIntoGrid, is_sound_and_never_beats_the_bounds,
              (std::uint8_t rows, std::uint8_t columns)) {
  const std::vector<Cost> costs = *cost_lists(40);
  const GridShape shape{1 + rows % 7, 1 + columns % 7};
  const std::int64_t max_items = 1 + static_cast<std::int64_t>(costs.size()) / shape.rows;
  const BinLimits limits{.max_items = max_items};
  const Partition grid = partition_into_grid(costs, costs, limits, shape);
  expect_sound(grid, costs, costs, limits, shape);
  const GridCost cost = cost_of(grid, costs, shape);
  const Cost total = std::accumulate(costs.begin(), costs.end(), Cost{0});
  RC_ASSERT(cost.dearest_row <= cost.meeting);
  RC_ASSERT(cost.dearest_row * shape.rows >= total);
  RC_ASSERT(grid == partition_into_grid(costs, costs, limits, shape));
}

RC_GTEST_PROP(PartitionIntoGrid, keeps_the_limits_on_items_with_counts, ()) {
  const std::vector<Cost> costs = *cost_lists(40);
  const Sizes counts = *rc::gen::container<Sizes>(costs.size(), rc::gen::inRange<std::int64_t>(1, 6));
  const BinItems items{costs, counts};
  const BinLimits limits{.max_size = 2 * std::max<Cost>(largest_of(costs), 1), .max_items = 7};
  const std::int64_t needed = std::max<std::int64_t>(count_groups(costs, items, limits).needed, 1);
  const GridShape shape{*rc::gen::inRange<std::int64_t>(1, 4), needed};
  const Partition grid = partition_into_grid(costs, items, limits, shape);
  expect_sound(grid, costs, items, limits, shape);
}

struct GridAdversary {
  std::string name;
  std::vector<Cost> costs;
  std::int64_t max_size;
  Cost meeting;  ///< the optimum for 3 rows with 4 columns

  friend void PrintTo(const GridAdversary& adversary, std::ostream* out) { *out << adversary.name; }
};

class AdversarialGrid : public testing::TestWithParam<GridAdversary> {};

TEST_P(AdversarialGrid, meets_at_the_lowest_cost) {
  const auto& [name, costs, max_size, meeting] = GetParam();
  const Partition grid = partition_into_grid(costs, costs, {.max_size = max_size}, {3, 4});
  expect_sound(grid, costs, costs, {.max_size = max_size}, {3, 4});
  EXPECT_EQ(cost_of(grid, costs, {3, 4}).meeting, meeting);
}

constexpr Cost huge_cell = Cost{1} << 40;
constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();

INSTANTIATE_TEST_SUITE_P(
    Inputs, AdversarialGrid,
    testing::Values(GridAdversary{"all_equal", std::vector<Cost>(36, 5), 15, 60},
                    GridAdversary{"one_giant", joined({100}, std::vector<Cost>(22, 10)), 110, 110},
                    GridAdversary{"powers_of_two", powers_of_two(), none, huge_cell},
                    GridAdversary{"two_clusters", joined(std::vector<Cost>(6, 50), std::vector<Cost>(6, 1)),
                                  60, 102},
                    GridAdversary{"fewer_items_than_cells", {9, 5, 7}, 9, 9},
                    GridAdversary{"as_many_items_as_cells", {6, 6, 6, 5, 5, 5, 4, 4, 4, 3, 3, 3}, 6, 18},
                    GridAdversary{"zeros", std::vector<Cost>(20, 0), 1, 0},
                    GridAdversary{"huge", std::vector<Cost>(12, huge_cell), huge_cell, 4 * huge_cell}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace evenkeel
