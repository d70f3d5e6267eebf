#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "evenkeel/plan/filter.hpp"

namespace evenkeel {

/// A source of a run, and the counts of its filter.
struct ReportedSource {
  std::string name;  ///< name in the configuration; without a name, the path or "synthetic"
  std::string path;  ///< empty if the source has no path
  FilterCounts counts;
};

/// Describes the filter's effect, such as "of 100 samples: 26 samples split into 57 pieces"; empty if
/// all samples passed unchanged.
[[nodiscard]] std::string describe_filter(const FilterCounts& counts);

[[nodiscard]] nlohmann::json to_json(const ReportedSource& source);

/// Returns the outcomes of the samples that arrived, as names and values of report rows.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> arrival_rows(const ArrivalFigures& arrivals);

}  // namespace evenkeel
