#include "report/arrival_report.hpp"

#include <fmt/format.h>

#include "base/text_layout.hpp"
#include "page/arrivals.hpp"

namespace evenkeel {
namespace {

std::string dropped_text(const std::map<std::string, std::int64_t>& dropped) {
  std::int64_t all = 0;
  std::string reasons;
  for (const auto& [reason, samples] : dropped) {
    if (samples == 0) continue;
    all += samples;
    reasons += fmt::format("{}{} {}", reasons.empty() ? "" : ", ", grouped(samples), reason);
  }
  return grouped(all) + " dropped" + (reasons.empty() ? "" : " (" + reasons + ")");
}

double mean(std::int64_t sum, std::int64_t count) {
  return count == 0 ? 0 : static_cast<double>(sum) / static_cast<double>(count);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> arrival_rows(const ArrivalFigures& arrivals) {
  return {{"samples that arrived",
           fmt::format("{}: {} trained, {} in steps, {} waiting, {}; {}", grouped(arrivals.received),
                       grouped(arrivals.trained), grouped(arrivals.formed), grouped(arrivals.waiting),
                       dropped_text(arrivals.dropped), counted(arrivals.duplicates, "duplicate"))},
          {"response tokens of a sample",
           fmt::format("{:.1f} of those that arrived, {:.1f} of those that were trained",
                       mean(arrivals.received_tokens, arrivals.received),
                       mean(arrivals.trained_tokens, arrivals.trained))},
          {"samples behind the policy", behind_text(arrivals.staleness)},
          {"seconds steps waited for samples", fmt::format("{:.3f}", arrivals.waited)}};
}

}  // namespace evenkeel
