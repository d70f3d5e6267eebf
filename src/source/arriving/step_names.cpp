#include "source/arriving/step_names.hpp"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace evenkeel {
namespace {

/// Returns the sample's name for error messages, "index I of group G", or nullopt if the sample is not in the
/// step.
std::optional<std::string> find_sample_name(const stream::FormedStep& step, SampleId sample) {
  for (const stream::WaitingGroup& group : step.groups) {
    for (const stream::WaitingSample& of : group.samples) {
      if (of.arrival == sample.value())
        return fmt::format("index {} of group {}", of.index, stream::to_text(group.uid));
    }
  }
  return std::nullopt;
}

ErrorReport complete_report(ErrorReport report, const stream::FormedStep& step) {
  std::vector<std::string> names;
  for (const SampleId sample : report.samples) {
    const auto name = find_sample_name(step, sample);
    if (!name) return report;
    names.push_back(report.samples.size() == 1 ? *name : fmt::format("sample {}: {}", sample.value(), *name));
  }
  report.where = fmt::format("step {}, {} ({})", step.step, report.where, fmt::join(names, ", "));
  report.hint += fmt::format(
      "{}To make the step without a group, end the job, POST /v1/groups/UID/abort with {{\"in_step\": "
      "true}}, "
      "and resume",
      report.hint.empty() ? "" : ". ");
  report.samples.clear();
  return report;
}

}  // namespace

NamesInErrors make_names_in_errors(stream::FormedStep step) {
  return [shared = std::make_shared<const stream::FormedStep>(std::move(step))](ErrorReport report) {
    return complete_report(std::move(report), *shared);
  };
}

}  // namespace evenkeel
