#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/plan/context_comparison.hpp"
#include "cli/plan/plan_comparison.hpp"
#include "page/html_page.hpp"

namespace evenkeel::cli {

/// What `evenkeel plan --compare` shows: ways to plan, where cp is fixed, and what cp could be.
class Comparison {
 public:
  /// Throws as compare_plans and compare_contexts do. `table` outlives the comparison.
  Comparison(const LengthTable& table, const PlanSettings& settings);

  [[nodiscard]] std::string text(const TextStyle& style) const;
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
};

}  // namespace evenkeel::cli
