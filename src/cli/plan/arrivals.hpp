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
  bool has_versions = false;  ///< else all are 0
};

/// Reads a length table (read_length_table) whose rows have a uid, and may have the columns `index` (unset:
/// counted in each group), `version` and `arrival` (by which rows are sorted; unset: the order of rows).
/// Throws likewise, and InputError for a row without a uid.
[[nodiscard]] Arrivals read_arrivals(const std::filesystem::path& path);

/// A step that was formed of arrivals.
struct ArrivedStep {
  std::vector<Uid> groups;
  std::int64_t samples = 0;
  std::int64_t tokens = 0;
  double time = 0;             ///< of its plan
  std::int64_t staleness = 0;  ///< of its oldest sample; the version is the number of the step
};

/// Arrivals in steps.
struct ArrivedSteps {
  std::int64_t look_ahead = 0;
  std::vector<ArrivedStep> steps;
  double at_once = 0;           ///< the time of one plan of all their samples
  std::int64_t dropped = 0;     ///< samples
  std::int64_t duplicates = 0;  ///< rows with a key that was there before

  [[nodiscard]] double time() const noexcept;
};

/// Forms steps as a job would that takes longer to train than samples take to arrive: as soon as a step and
/// those it looks ahead for are ready, and of the rest at the end. Throws InputError for a sample that no
/// buffer would take, and as plan_step does.
[[nodiscard]] ArrivedSteps steps_of(const Arrivals& arrivals, const stream::StreamSettings& settings,
                                    std::int64_t groups_of_step, const PlanSettings& plan);

/// A table for people; the first way is what the others are compared with.
[[nodiscard]] std::string arrivals_table(const std::vector<ArrivedSteps>& ways);
/// An array of the same, with every step, for programs.
[[nodiscard]] nlohmann::json arrivals_json(const std::vector<ArrivedSteps>& ways);

}  // namespace evenkeel::cli
