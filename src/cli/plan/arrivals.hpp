#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "evenkeel/plan/settings.hpp"
#include "stream/event.hpp"
#include "stream/settings.hpp"

namespace evenkeel::cli {

/// Samples in the order in which they arrive.
struct Arrivals {
  std::vector<stream::SampleAccepted> samples;
  bool has_versions = false;  ///< if false, all versions are 0
};

/// Reads a length table (read_length_table) whose rows have a uid. Its optional columns are `index` (default:
/// counted in each group), `version`, and `arrival`, by which rows are sorted (default: the order of rows).
/// Throws the errors of read_length_table(), and InputError for a row without a uid.
[[nodiscard]] Arrivals read_arrivals(const std::filesystem::path& path);

/// A step formed from arrivals.
struct ArrivedStep {
  std::vector<Uid> groups;
  std::int64_t samples = 0;
  std::int64_t tokens = 0;
  double time = 0;             ///< time of its plan
  std::int64_t staleness = 0;  ///< staleness of its oldest sample; versions are numbers of steps
};

/// Arrivals formed into steps.
struct ArrivedSteps {
  std::int64_t look_ahead = 0;
  std::vector<ArrivedStep> steps;
  double at_once = 0;           ///< time of one plan of all their samples
  std::int64_t dropped = 0;     ///< number of samples
  std::int64_t duplicates = 0;  ///< number of rows with the key of an earlier row

  [[nodiscard]] double time() const noexcept;
};

/// Forms steps like a job that trains more slowly than samples arrive: forms a step only when the samples for
/// it and for the steps to which it looks ahead have arrived. At the end, forms the last steps from the
/// remaining samples. Throws InputError for a sample that any buffer would refuse, and the errors of
/// plan_step().
[[nodiscard]] ArrivedSteps steps_of(const Arrivals& arrivals, const stream::StreamSettings& settings,
                                    std::int64_t groups_of_step, const PlanSettings& plan);

/// Returns a text table that compares each way of forming steps with the first one.
[[nodiscard]] std::string arrivals_table(const std::vector<ArrivedSteps>& ways);
/// Returns an array with every step, for programs.
[[nodiscard]] nlohmann::json arrivals_json(const std::vector<ArrivedSteps>& ways);

}  // namespace evenkeel::cli
