#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "evenkeel/base/grid.hpp"
#include "evenkeel/config/config.hpp"
#include "evenkeel/plan/settings.hpp"

namespace evenkeel {

// What the passes over a step say of the lengths that its samples may have. Pure.

/// The settings of the passes that will be made over each step: one with the job's own settings where none is
/// named. Throws as Config::plan_settings.
[[nodiscard]] std::vector<PlanSettings> settings_of_passes(const GridPoint& sizes, const Config& config,
                                                           std::span<const std::string> profiles);

/// The most tokens of a sample for the filter: the smallest cap of the passes, on micro-batches or paths,
/// unless it is set.
[[nodiscard]] std::int64_t longest_for_filter(const Config& config, std::span<const PlanSettings> passes);

/// Throws ConfigError where what the filter lets through could still exceed a cap or that on paths, or where
/// it would depend on the mesh.
void require_fit(const Config& config, std::span<const PlanSettings> passes,
                 std::span<const std::string> profiles);

/// Throws ConfigError where a step has more updates than samples. The last step of an epoch may have fewer.
void require_samples_for_updates(const Config& config);

}  // namespace evenkeel
