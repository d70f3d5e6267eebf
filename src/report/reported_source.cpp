#include "report/reported_source.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/text_layout.hpp"
#include "page/arrivals.hpp"

namespace evenkeel {

std::string describe_filter(const FilterCounts& counts) {
  std::vector<std::string> parts;
  const auto add_part = [&](std::int64_t count, const std::string& what) {
    if (count > 0) parts.push_back(format_plain_count(count, "sample") + " " + what);
  };
  add_part(counts.dropped_too_long, "too long and dropped");
  add_part(counts.truncated, "truncated");
  add_part(counts.split, "split into " + format_plain_count(counts.pieces, "piece"));
  add_part(counts.dropped_empty, "empty and dropped");
  if (parts.empty()) return {};
  if (counts.tokens_left_out > 0)
    parts.push_back(format_plain_count(counts.tokens_left_out, "token") + " left out");
  return fmt::format("of {}: {}", format_plain_count(counts.samples, "sample"), fmt::join(parts, ", "));
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

namespace {

std::string dropped_text(const std::map<std::string, std::int64_t>& dropped) {
  std::int64_t all = 0;
  std::string reasons;
  for (const auto& [reason, samples] : dropped) {
    if (samples == 0) continue;
    all += samples;
    reasons += fmt::format("{}{} {}", reasons.empty() ? "" : ", ", format_with_commas(samples), reason);
  }
  return format_with_commas(all) + " dropped" + (reasons.empty() ? "" : " (" + reasons + ")");
}

double mean(std::int64_t sum, std::int64_t count) {
  return count == 0 ? 0 : static_cast<double>(sum) / static_cast<double>(count);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> arrival_rows(const ArrivalFigures& arrivals) {
  return {{"samples that arrived",
           fmt::format("{}: {} trained, {} in steps, {} waiting, {}; {}",
                       format_with_commas(arrivals.received), format_with_commas(arrivals.trained),
                       format_with_commas(arrivals.formed), format_with_commas(arrivals.waiting),
                       dropped_text(arrivals.dropped), format_count(arrivals.duplicates, "duplicate"))},
          {"response tokens of a sample",
           fmt::format("{:.1f} of those that arrived, {:.1f} of those that were trained",
                       mean(arrivals.received_tokens, arrivals.received),
                       mean(arrivals.trained_tokens, arrivals.trained))},
          {"samples behind the policy", staleness_text(arrivals.staleness)},
          {"seconds steps waited for samples", fmt::format("{:.3f}", arrivals.waited_seconds)}};
}

}  // namespace evenkeel
