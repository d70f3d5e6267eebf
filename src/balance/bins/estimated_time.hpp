#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/cost/cost_model.hpp"

namespace evenkeel {

/// How long groups take that ranks work through side by side.
struct GroupTiming {
  Cost overhead = 0;        ///< of every group beside its items' cost, in the same units
  std::int64_t stages = 1;  ///< of the pipeline that each group passes through
};

/// What a group costs before it has an item, where nothing is measured: an assumed 256 tokens' work.
/// overhead_cost_of (cost_fit.hpp) gives the measured figure.
[[nodiscard]] Cost default_overhead(const CostModel& model);

/// Of ranks that meet at every group: the sum over j of overhead + max over r of cost(r, j); and stages - 1
/// times the overhead and the largest cost of all, while the pipeline fills and drains. Lists may differ in
/// length; missing groups cost nothing.
[[nodiscard]] Cost estimated_time(std::span<const std::vector<Cost>> costs_of_ranks, GroupTiming timing);

}  // namespace evenkeel
