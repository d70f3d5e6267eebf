#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "evenkeel/plan/filter.hpp"

namespace evenkeel {

/// A source of a run, and what its filter did.
struct ReportedSource {
  std::string name;  ///< in the configuration; else its path, or synthetic
  std::string path;  ///< empty: it has none
  FilterCounts counts;
};

/// What the filter did, in words, such as "of 100 samples: 26 samples split into 57 pieces"; empty when it
/// let all samples through whole.
[[nodiscard]] std::string filter_in_words(const FilterCounts& counts);

[[nodiscard]] nlohmann::json to_json(const ReportedSource& source);

/// What became of samples that arrived, as rows of a report: names and values.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> arrival_rows(const ArrivalFigures& arrivals);

}  // namespace evenkeel
