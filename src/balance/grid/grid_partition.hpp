#pragma once

#include <cstdint>
#include <span>

#include "evenkeel/balance/bin_packing.hpp"
#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// The shape of a grid whose rows process the columns in parallel and synchronize after each column, so a
/// column takes as long as its costliest cell.
struct GridShape {
  std::int64_t rows = 1;
  std::int64_t columns = 1;

  friend bool operator==(const GridShape&, const GridShape&) = default;
};

/// Partitions n items into rows x columns cells, each within `limits`. Cell (r, j) is group (r * columns + j)
/// of the result; cells may be empty. Minimizes, in this order of importance:
/// - the sum over j of max over r of cost(r, j): the time if rows synchronize after every column;
/// - max over r of the sum over j of cost(r, j): the time if rows synchronize only at the end.
///
/// Columns are in descending order of cost; the items of a cell are in ascending order.
///
/// 1. Balance all cells by partition_under_limits(). Move and swap items between and within columns, and swap
///    cells between rows.
/// 2. If the sum of the columns' largest costs is more than 1/10000 above the mean cost of a row, also start
///    from another grid, in which items that are costlier than an average cell have columns of their own. The
///    other cells of these columns are filled up to a ceiling: the lowest one for which the items of the
///    remaining columns can still be balanced under the limits. Improve this grid in the same way, and keep
///    the better grid.
///
/// Succeeds if partition_under_limits() succeeds for k = rows x columns; otherwise, throws the same errors.
/// Throws InputError for a shape below 1 x 1. `costs` and `items` have n entries each. Deterministic, local.
/// The amount of work for the improvement is limited by an operation count, O(n), not by time.
///
/// Example: costs {8, 7, 2, 2, 1} in 2 rows and 2 columns without limits give the rows {8}, {2} and {7, 1},
/// {2}, so neither row waits. Karmarkar-Karp over the rows, and then within each row, would also give each
/// row a cost of 10, but as {8}, {2} and {7}, {2, 1}: the second row would wait in the first column.
[[nodiscard]] Partition partition_into_grid(std::span<const Cost> costs, BinItems items, BinLimits limits,
                                            GridShape shape);

}  // namespace evenkeel
