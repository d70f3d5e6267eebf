#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/plan/context_comparison.hpp"
#include "cli/plan/plan_comparison.hpp"
#include "cli/plan/plan_input.hpp"
#include "cli/plan/sharing_comparison.hpp"
#include "page/html_page.hpp"

namespace evenkeel::cli {

/// What `evenkeel plan --compare` shows: ways to plan every sample on its own, where cp is fixed, what cp
/// could be, and ways to share prefixes, where the settings share any.
class Comparison {
 public:
  /// Throws as compare_plans, compare_contexts and compare_sharing do. `input` outlives the comparison.
  Comparison(const PlanInput& input, const PlanSettings& settings);

  [[nodiscard]] std::string text() const;
  /// An array, one entry a way.
  [[nodiscard]] nlohmann::json json() const;
  /// A page that draws the ways, and the plan of each way for a cp that is fixed. `subject` says where the
  /// lengths come from.
  [[nodiscard]] std::string html(PageSubject subject) const;

 private:
  const LengthTable& table_;
  PlanSettings settings_;
  std::vector<ComparedPlan> plans_;
  std::optional<ContextComparison> contexts_;
  std::vector<ComparedSharing> sharing_;
};

}  // namespace evenkeel::cli
