#include "report/reported_source.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/text_layout.hpp"

namespace evenkeel {

std::string filter_in_words(const FilterCounts& counts) {
  std::vector<std::string> parts;
  const auto tell = [&](std::int64_t count, const std::string& what) {
    if (count > 0) parts.push_back(number_of(count, "sample") + " " + what);
  };
  tell(counts.dropped_too_long, "too long and dropped");
  tell(counts.truncated, "truncated");
  tell(counts.split, "split into " + number_of(counts.pieces, "piece"));
  tell(counts.dropped_empty, "empty and dropped");
  if (parts.empty()) return {};
  if (counts.tokens_left_out > 0) parts.push_back(number_of(counts.tokens_left_out, "token") + " left out");
  return fmt::format("of {}: {}", number_of(counts.samples, "sample"), fmt::join(parts, ", "));
}

nlohmann::json to_json(const ReportedSource& source) {
  const FilterCounts& counts = source.counts;
  return {{"name", source.name},
          {"path", source.path.empty() ? nlohmann::json() : nlohmann::json(source.path)},
          {"samples", counts.samples},
          {"taken", counts.taken},
          {"dropped_too_long", counts.dropped_too_long},
          {"dropped_empty", counts.dropped_empty},
          {"truncated", counts.truncated},
          {"split", counts.split},
          {"pieces", counts.pieces},
          {"tokens_left_out", counts.tokens_left_out}};
}

}  // namespace evenkeel
