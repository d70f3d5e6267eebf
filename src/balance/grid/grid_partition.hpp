#pragma once

#include <cstdint>
#include <span>

#include "evenkeel/balance/bin_packing.hpp"
#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// Rows work side by side through the columns, and meet at each: a column takes as long as its costliest
/// cell.
struct GridShape {
  std::int64_t rows = 1;
  std::int64_t columns = 1;

  friend bool operator==(const GridShape&, const GridShape&) = default;
};

/// Partitions n items into rows * columns cells, none above `limits` on `items`: always. Cell (r, j) is group
/// r * columns + j of the result; cells may be empty. In this order of importance it makes small
/// - sum over j of max over r of cost(r, j), what rows that meet at every column take;
/// - max over r of the sum over j of cost(r, j), what rows that meet once take.
///
/// Columns come costliest first; a cell's items ascend. Where single items are costlier than an average cell,
/// they share columns that are filled up to a ceiling, as low as leaves the other columns no more than
/// balancing brings under the limits (partition_under_limits); then items move and are swapped between and
/// within columns, cells between rows.
///
/// Succeeds where partition_under_limits does for k = rows * columns, and throws as it does; InputError for a
/// shape below 1 x 1. `costs` and `items` have n entries each. Deterministic, local; the work of the
/// improvement is bounded by a count, O(n).
///
/// Example: costs {8, 7, 2, 2, 1} in 2 rows and 2 columns, no limits: rows hold 8, 2 and 7 + 1, 2. Nobody
/// waits. Differencing twice gives each row 10 too, but as 8, 2 and 7, 2 + 1: the first column waits for 8.
[[nodiscard]] Partition partition_into_grid(std::span<const Cost> costs, BinItems items, BinLimits limits,
                                            GridShape shape);

}  // namespace evenkeel
