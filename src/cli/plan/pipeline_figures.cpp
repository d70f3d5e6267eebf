#include "cli/plan/pipeline_figures.hpp"

#include <fmt/format.h>

#include "base/text_layout.hpp"
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

}  // namespace evenkeel::cli
