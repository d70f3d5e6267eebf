#include "cli/plan/shaped_plan.hpp"

#include <algorithm>
#include <iterator>
#include <span>

#include "base/id_range.hpp"
#include "plan/micro_batches/shape_choice.hpp"

namespace evenkeel::cli {

std::optional<ShapedPlan> shaped_plan(const StepProblem& problem, const StepPlan& plan) {
  const PlanSettings& settings = problem.settings;
  if (!settings.micro_batch.shapes) return std::nullopt;
  PassNeeds pass{&settings, {}};
  for (const DpRank rank : ids_below<DpRank>(static_cast<DpRank::value_type>(plan.ranks.size())))
    for (const MicroBatchPlan& m : plan.ranks[rank.index()].micro_batches)
      if (m.is_led_by(rank)) pass.needed.push_back(needed_shape(problem.table, m, settings));
  ShapedPlan shaped{first_shapes(std::span(&settings, 1))};
  std::ranges::copy(shapes_to_add(std::span(&pass, 1), shaped.shapes), std::back_inserter(shaped.shapes));
  for (const PackedShape& needed : pass.needed) {
    const std::int64_t rows = smallest_shape(needed, shaped.shapes, settings).rows;
    shaped.rows += needed.rows * needed.cp;
    shaped.padding += (rows - needed.rows) * needed.cp;
  }
  return shaped;
}

}  // namespace evenkeel::cli
