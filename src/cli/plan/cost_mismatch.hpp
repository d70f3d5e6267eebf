#pragma once

#include "evenkeel/cost/cost_model.hpp"
#include "evenkeel/plan/length_table.hpp"
#include "evenkeel/plan/settings.hpp"

namespace evenkeel::cli {

/// The actual or the assumed costs of samples and micro-batches on a machine, in the units of `model`.
struct MachineCost {
  CostModel model;
  Cost overhead = 0;  ///< cost of each micro-batch in addition to its samples
};

/// Returns how much later a step ends if it is planned with the `assumed` costs instead of the `actual` ones,
/// relative to its end in the latter case. Both ends are computed with the actual costs; the result may be
/// negative. Throws if a step cannot be planned (see plan_step()). Precondition: groups have equal sizes.
[[nodiscard]] double cost_mismatch_slowdown(const MachineCost& assumed, const MachineCost& actual,
                                            const LengthTable& table, const PlanSettings& settings);

}  // namespace evenkeel::cli
