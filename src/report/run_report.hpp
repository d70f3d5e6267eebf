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

/// Totals of the passes of one profile, in constant memory.
struct RunTotals {
  void add(const StepFigures& figures);

  StepFigures latest;  ///< figures of the last pass that was added
  PassTotals passes;
  /// One entry per field name, summed over the passes that transferred the field; `max_received` is the
  /// maximum over these passes.
  std::vector<FieldFigures> fields;
  std::optional<SharingSavings> sharing;
  std::optional<ShapeFigures> shapes;
  std::optional<StrategyFigures> strategy;
};

/// Report of a whole run: its origin and its steps.
struct RunReport {
  /// Determines which steps are kept for to_json(). `each` keeps a few KiB per step; with `totals`, memory
  /// does not depend on the number of steps.
  enum class Steps : std::uint8_t { totals, each };

  MeshPicture mesh{};
  std::string job{};      ///< path of the configuration, as given on the command line
  std::string started{};  ///< start time, such as 2026-11-22T02:17:08Z
  Steps keeps = Steps::totals;
  double seconds = 0;                 ///< wall-clock time of all steps, on the slowest rank
  std::vector<RunTotals> profiles{};  ///< totals of each profile, in the order of the profiles' first passes
  std::vector<StepFigures> steps{};   ///< in execution order; empty unless `keeps` is `each`

  std::int64_t first_step = 0;  ///< first step of this run; earlier runs of the job made the previous steps
  std::vector<ReportedSource> sources{};
  std::optional<DelayFigures> delay{};  ///< figures of delayed samples; present if outliers are delayed
  /// Outcomes of the samples; present if samples arrive during training.
  std::optional<ArrivalFigures> arrivals{};

  /// One picture per profile whose passes were gathered with FiguresDetail::picture. The HTML page shows the
  /// pictures, and the report's advice is derived from them.
  std::vector<RunPicture> pictures{};
  std::optional<std::int64_t> prefetch{};  ///< value of exchange.prefetch
  std::string version{};                   ///< version of the program

  void add(StepFigures figures);
  [[nodiscard]] RunCircumstances circumstances() const noexcept { return {prefetch, seconds}; }
};

/// Formats the report as text, with one table per profile. docs/report.md explains every line.
[[nodiscard]] std::string to_text(const RunReport& report, bool is_colored = false);
/// Formats the report as one HTML page with charts. docs/report.md explains them.
[[nodiscard]] std::string to_html(const RunReport& report);
/// Formats the report as JSON: figures of the run, and one object per kept step. docs/report.md explains
/// every key.
[[nodiscard]] nlohmann::json to_json(const RunReport& report);
/// Formats one step of the report as JSON.
[[nodiscard]] nlohmann::json to_json(const StepFigures& figures);

}  // namespace evenkeel
