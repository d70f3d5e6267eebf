#include "bound/flexible_bound.hpp"

#include <cstdint>

#include "balance/context/schedule.hpp"
#include "bound/waves_bound.hpp"
#include "plan/assign/mini_batches.hpp"
#include "plan/strategies/flexible_items.hpp"
#include "plan/strategies/strategy.hpp"

namespace evenkeel {

Cost flexible_lower_bound(const StepProblem& given) {
  PlanSettings settings = given.settings;
  settings.micro_batch.max_rows.clear();  // without caps on rows no step ends later
  const StepProblem problem{given.table, settings, given.step, given.trees};
  const PackUnits units = make_units(problem);
  const IdGroups<UnitId> cut = cut_into_mini_batches(problem, units);
  Cost bound = 0;
  for (std::int64_t m = 0; m < cut.size(); ++m) {
    const FlexibleItems items(problem.settings, units, cut[m]);
    bound += strategy_of(problem.settings).ranks_meet() ? context::waves_lower_bound(items.problem())
                                                        : context::lower_bound(items.problem());
  }
  return bound;
}

}  // namespace evenkeel
