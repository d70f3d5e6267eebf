#pragma once

#include <string>
#include <utility>
#include <vector>

#include "evenkeel/plan/filter.hpp"

namespace evenkeel {

/// What became of samples that arrived, as rows of a report: names and values.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> arrival_rows(const ArrivalFigures& arrivals);

}  // namespace evenkeel
