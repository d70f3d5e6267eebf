#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "evenkeel/plan/filter.hpp"

namespace evenkeel {

/// What became of samples that arrived, as rows of a report: names and values.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> arrival_rows(const ArrivalFigures& arrivals);

/// The same as an object with the keys that docs/report.md lists; null where nothing arrives.
[[nodiscard]] nlohmann::json arrivals_json(const std::optional<ArrivalFigures>& arrivals);

}  // namespace evenkeel
