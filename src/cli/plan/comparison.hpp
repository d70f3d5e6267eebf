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

/// Results of `evenkeel plan --compare`. Compares choices of cp. If cp is fixed, also compares strategies,
/// without sharing prefixes. If the settings enable sharing, also compares ways to share prefixes.
class Comparison {
 public:
  /// `input` must outlive the comparison. Throws if a step cannot be planned (see plan_step()).
  Comparison(const PlanInput& input, const PlanSettings& settings);

  [[nodiscard]] std::string text() const;
  /// Returns an array with one entry per compared alternative.
  [[nodiscard]] nlohmann::json json() const;
  /// Returns an HTML page with the figures of all alternatives, and with the plans of the compared
  /// strategies. `subject` names the origin of the lengths.
  [[nodiscard]] std::string html(PageSubject subject) const;

 private:
  const LengthTable& table_;
  PlanSettings settings_;
  std::vector<ComparedPlan> plans_;
  double max_attention_mismatch_slowdown_ = 0;
  std::optional<ContextComparison> contexts_;
  std::vector<ComparedSharing> sharing_;
};

}  // namespace evenkeel::cli
