#include "cli/plan/sharing_figures.hpp"

#include "page/pass_figures.hpp"
#include "plan/units/pack_units.hpp"

namespace evenkeel::cli {

std::string sharing_line(const StepProblem& problem, const TextStyle& style) {
  if (problem.settings.sharing == PrefixSharing::none) return "";
  return indented("tokens repeated by splits: " + repeated_in_words(make_units(problem).repeated()), 0,
                  style.width);
}

nlohmann::json sharing_json(const StepProblem& problem) {
  const PackUnits units = make_units(problem);
  const SharingSavings savings = savings_of(units);
  return {{"tokens", savings.tokens},
          {"tokens_without", savings.repeated_tokens},
          {"score_entries", savings.score_entries},
          {"score_entries_without", savings.repeated_score_entries},
          {"tokens_repeated", sum_of(units.repeated())},
          {"repeated_to_keep", repeated_json(units.repeated())}};
}

}  // namespace evenkeel::cli
