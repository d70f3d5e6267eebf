#include "cli/plan/sharing_figures.hpp"

#include "page/pass_figures.hpp"

namespace evenkeel::cli {

std::string sharing_line(const PackUnits& units) {
  if (!units.shared()) return "";
  return "tokens repeated by splits: " + repeated_in_words(units.repeated()) + "\n";
}

nlohmann::json sharing_json(const PackUnits& units) {
  return sharing_json(savings_of(units), units.repeated());
}

}  // namespace evenkeel::cli
