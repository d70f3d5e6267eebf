#pragma once

#include <optional>
#include <vector>

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

}  // namespace evenkeel
