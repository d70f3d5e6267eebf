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
  bool has_versions = false;  ///< whether the table has versions; if not, all versions are 0
};

/// Reads a length table (read_length_table) whose rows have a uid. Its optional columns are `index` (by
/// default, samples are numbered within their group), `version`, and `arrival`, by which rows are sorted (by
/// default, they keep their order). Throws InputError if the table is invalid, is empty or has a row without
/// a uid, and IoError if it cannot be read.
[[nodiscard]] Arrivals read_arrivals(const std::filesystem::path& path);

/// A step formed from arrivals.
struct ArrivedStep {
  std::vector<Uid> groups;
  std::int64_t samples = 0;
  std::int64_t tokens = 0;
  double time = 0;  ///< planned time of the step, in the units of the cost model
  /// Staleness of the step's oldest group: the number of versions published since the version of the group,
  /// where each step publishes one version.
  std::int64_t staleness = 0;
};

/// The steps formed from arrivals.
struct ArrivedSteps {
  std::int64_t look_ahead = 0;
  std::vector<ArrivedStep> steps;
  double at_once = 0;  ///< planned time of a hypothetical single step with all trained samples
  /// Number of samples that no step trains because a rule of the stream drops them.
  std::int64_t dropped = 0;
  std::int64_t duplicates = 0;  ///< number of rows whose key occurs in an earlier row

  [[nodiscard]] double time() const noexcept;
};

/// Forms steps as in a job that trains more slowly than samples arrive: forms a step only after enough groups
/// have arrived for this step and its look-ahead. At the end, forms steps from the remaining samples. Throws
/// InputError if a sample is invalid (Ledger::rejection_reason()) or its index is not below
/// settings.group_size. Also throws if a step cannot be planned (see plan_step()).
[[nodiscard]] ArrivedSteps replay_arrivals(const Arrivals& arrivals, const stream::StreamSettings& settings,
                                           std::int64_t groups_of_step, const PlanSettings& plan);

/// Formats a table that compares each way of forming steps with the first one.
[[nodiscard]] std::string arrivals_table(const std::vector<ArrivedSteps>& ways);
/// Returns a JSON array with the steps of each way of forming steps.
[[nodiscard]] nlohmann::json arrivals_json(const std::vector<ArrivedSteps>& ways);

}  // namespace evenkeel::cli
