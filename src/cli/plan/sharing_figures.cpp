#include "cli/plan/sharing_figures.hpp"

#include "page/pass_figures.hpp"
#include "plan/assign/step_assignment.hpp"

namespace evenkeel::cli {

std::string sharing_line(const StepProblem& problem, const TextStyle& style) {
  if (problem.settings.sharing == PrefixSharing::none) return "";
  return indented("tokens repeated by splits: " + repeated_in_words(planned_units(problem).repeated()), 0,
                  style.width);
}

nlohmann::json sharing_json(const StepProblem& problem) {
  const PackUnits units = planned_units(problem);
  return sharing_json(savings_of(units), units.repeated());
}

}  // namespace evenkeel::cli
