#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/balance/bin_packing.hpp"
#include "evenkeel/balance/partition.hpp"
#include "evenkeel/cost/cost_model.hpp"

namespace evenkeel {

/// How long groups take that ranks work through side by side.
struct GroupTiming {
  Cost overhead = 0;           ///< of every group beside its items' cost, in the same units
  std::int64_t stages = 1;     ///< of the pipeline that each group passes through
  std::int64_t multiple = 1;   ///< the count is a multiple of it
  std::int64_t min_count = 1;  ///< and no less than this
};

/// What a group costs before it has an item, where nothing is measured: an assumed 256 tokens' work.
/// overhead_cost_of (cost_fit.hpp) gives the measured figure.
[[nodiscard]] Cost default_overhead(const CostModel& model);

/// Of ranks that meet at every group: the sum over j of overhead + max over r of cost(r, j); and stages - 1
/// times the overhead and the largest cost of all, while the pipeline fills and drains. Lists may differ in
/// length; missing groups cost nothing.
[[nodiscard]] Cost estimated_time(std::span<const std::vector<Cost>> costs_of_ranks, GroupTiming timing);

/// One rank's items, n entries each.
struct ItemsOfRank {
  std::vector<Cost> costs;
  std::vector<std::int64_t> sizes;
};

struct CountChoice {
  std::int64_t count = 0;   ///< groups of every rank
  std::int64_t fewest = 0;  ///< the smallest count there is: what all ranks need under the limits
  Cost time = 0;            ///< estimated, at `count`

  friend bool operator==(const CountChoice&, const CountChoice&) = default;
};

/// The count of groups, the same on all ranks, at which partition_under_limits gives the lowest estimated
/// time: the fewest, or a few more where a loose limit lets groups then be more even. The smallest count on a
/// tie. Looks at the 8 smallest counts that are allowed, fewer when the overhead alone rules the others out.
/// The limits hold at every count. Deterministic, local on replicated input; as dear as 8 partitions. Throws
/// as count_groups does; InputError when a setting is below its default, or for a negative overhead.
[[nodiscard]] CountChoice choose_count(std::span<const ItemsOfRank> ranks, BinLimits limits,
                                       GroupTiming timing);

}  // namespace evenkeel
