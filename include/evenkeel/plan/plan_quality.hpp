#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/balance/quality.hpp"
#include "evenkeel/plan/step_plan.hpp"

namespace evenkeel {

/// How even a step is, in the cost model's units. 1 is perfect everywhere.
struct StepBalance {
  double dp_max_over_mean = 1;           ///< of the DP ranks' total work
  double micro_batch_max_over_mean = 1;  ///< of single micro-batches that are not empty, over all DP ranks
  /// For ranks that meet at every micro-batch: the sum over j of the dearest j-th micro-batch, over a DP
  /// rank's mean work.
  double step_max_over_mean = 1;

  friend bool operator==(const StepBalance&, const StepBalance&) = default;
};

/// Of the costs of every DP rank's micro-batches in order; all lists have K entries. Entries of 0 count as
/// empty.
[[nodiscard]] StepBalance step_balance(std::span<const std::vector<Cost>> micro_batch_costs);
[[nodiscard]] StepBalance step_balance(const StepPlan& plan);

}  // namespace evenkeel
