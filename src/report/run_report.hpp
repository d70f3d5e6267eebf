#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "evenkeel/plan/filter.hpp"
#include "evenkeel/plan/outlier_delay.hpp"
#include "page/advice.hpp"
#include "page/run_picture.hpp"
#include "report/reported_source.hpp"
#include "report/step_figures.hpp"

namespace evenkeel {

/// The passes of one profile together, in the memory of a few.
struct RunTotals {
  void add(const StepFigures& figures);

  StepFigures latest;  ///< as it was added
  PassTotals passes;
  std::vector<FieldFigures> fields;  ///< by name, of passes in which they travelled; the most of any of these
  std::optional<SharingSavings> sharing;
  std::optional<ShapeFigures> shapes;
  std::optional<StrategyFigures> strategy;
};

/// A whole run: what it ran on and what became of its steps.
struct RunReport {
  /// What to_json lists one by one: some KiB a step. Without, memory does not depend on the number of steps.
  enum class Steps : std::uint8_t { totals, each };

  MeshPicture mesh{};
  std::string job{};      ///< its configuration, as it was named on the command line
  std::string started{};  ///< such as 2026-11-22T02:17:08Z
  Steps keeps = Steps::totals;
  double seconds = 0;                 ///< wall clock of all steps, on the rank that took longest
  std::vector<RunTotals> profiles{};  ///< in the order in which they first ran
  std::vector<StepFigures> steps{};   ///< in the order in which they ran, where each is kept

  std::int64_t first_step =
      0;  ///< the first one that this run made: earlier runs of the job made those before
  std::vector<ReportedSource> sources{};
  std::optional<DelayFigures> delay{};       ///< of outliers, where they wait
  std::optional<ArrivalFigures> arrivals{};  ///< of samples that arrive while the job trains

  /// Of each profile for which pictures came: what the page draws and advice follows from.
  std::vector<RunPicture> pictures{};
  std::optional<std::int64_t> prefetch{};  ///< exchange.prefetch
  std::string version{};                   ///< of the program

  void add(StepFigures figures);
  [[nodiscard]] RunCircumstances circumstances() const noexcept { return {prefetch, seconds}; }
};

/// The report as a table for people, one a profile. docs/report.md explains every line.
[[nodiscard]] std::string to_text(const RunReport& report, bool is_colored = false);
/// The report as one HTML page, with charts of what pictures came. docs/report.md explains them.
[[nodiscard]] std::string to_html(const RunReport& report);
/// The report as JSON: run figures and one object a step that was kept. docs/report.md explains every key.
[[nodiscard]] nlohmann::json to_json(const RunReport& report);
/// One of its steps.
[[nodiscard]] nlohmann::json to_json(const StepFigures& figures);

}  // namespace evenkeel
