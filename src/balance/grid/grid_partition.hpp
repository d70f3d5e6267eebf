#pragma once

#include <cstdint>
#include <span>

#include "evenkeel/balance/bin_packing.hpp"
#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// The shape of a grid whose rows work through the columns in parallel and meet at each column: a column
/// takes as long as its costliest cell.
struct GridShape {
  std::int64_t rows = 1;
  std::int64_t columns = 1;

  friend bool operator==(const GridShape&, const GridShape&) = default;
};

/// Partitions n items into rows x columns cells that always stay within `limits` on `items`. Cell (r, j) is
/// group (r * columns + j) of the result; cells may be empty. Minimizes, in this order of importance:
/// - the sum over j of max over r of cost(r, j): the time of rows that meet at every column;
/// - max over r of the sum over j of cost(r, j): the time of rows that meet once.
///
/// Columns are in descending order of cost; the items of a cell are in ascending order.
/// 1. If single items are costlier than an average cell, put them into columns of their own. The other cells
///    of these columns are filled up to a ceiling: the lowest one for which the items of the remaining
///    columns can still be balanced under the limits (partition_under_limits).
/// 2. Move and swap items between and within columns, and swap cells between rows.
///
/// Succeeds if partition_under_limits() does for k = rows x columns. Throws its errors, and InputError for a
/// shape below 1 x 1. `costs` and `items` have n entries each. Deterministic, local; the work for the
/// improvement is bounded by a count, O(n), not by a clock.
///
/// Example: costs {8, 7, 2, 2, 1} in 2 rows and 2 columns without limits give the rows {8}, {2} and {7, 1},
/// {2}, so neither row waits. Differencing over the rows, and then within each row, would also give each row
/// a cost of 10, but as {8}, {2} and {7}, {2, 1}, where the second row waits in the first column.
[[nodiscard]] Partition partition_into_grid(std::span<const Cost> costs, BinItems items, BinLimits limits,
                                            GridShape shape);

}  // namespace evenkeel
