#include "cli/plan/plan_figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>

#include "base/id_range.hpp"
#include "base/text_layout.hpp"
#include "page/pass_figures.hpp"
#include "plan/micro_batches/shape_choice.hpp"
#include "plan/pipeline/simulated_step.hpp"

namespace evenkeel::cli {

std::string pipeline_line(const StepPlan& plan, const PlanSettings& settings) {
  const auto step = simulated_step(plan, settings);
  if (!step) return "";
  const std::string stages = counted(settings.pp, "stage") +
                             (settings.vpp > 1 ? fmt::format(" of {} chunks", grouped(settings.vpp)) : "");
  return fmt::format("simulated pipeline of {}: ends at {}, {:.2f} % of it bubble\n", stages,
                     grouped(step->end), 100 * step->bubble);
}

void add_pipeline(nlohmann::json& json, const StepPlan& plan, const PlanSettings& settings) {
  const auto step = simulated_step(plan, settings);
  if (!step) return;
  json["pipeline"] = {
      {"stages", settings.pp}, {"chunks", settings.vpp}, {"end", step->end}, {"bubble", step->bubble}};
}

std::string sharing_line(const PackUnits& units) {
  if (!units.shared()) return "";
  return "tokens repeated by splits: " + repeated_in_words(units.repeated()) + "\n";
}

nlohmann::json sharing_json(const PackUnits& units) {
  return sharing_json(savings_of(units), units.repeated());
}

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
