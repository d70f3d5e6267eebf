#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "evenkeel/base/grid.hpp"
#include "evenkeel/config/config.hpp"
#include "evenkeel/plan/settings.hpp"

namespace evenkeel {

// Limits on the lengths of samples, derived from the passes over a step. All functions are pure.

/// Returns the settings of the passes that will be made over each step: one pass with the job's own settings
/// if `profiles` is empty. Throws ConfigError if a profile does not exist.
[[nodiscard]] std::vector<PlanSettings> settings_of_passes(const GridPoint& sizes, const Config& config,
                                                           std::span<const std::string> profiles);

/// Returns the filter's maximum number of tokens per sample: batch.max_length or, if this key is not set, the
/// smallest of the passes' caps on the tokens of micro-batches and paths.
[[nodiscard]] std::int64_t max_length_for_filter(const Config& config, std::span<const PlanSettings> passes);

/// Checks the filter (batch.too_long, batch.max_length) against the passes. Does nothing if batch.too_long is
/// error. Throws ConfigError if samples that pass the filter could exceed a cap on micro-batches or paths, or
/// if batch.max_length is auto but the maximum would depend on the mesh: with flexible CP, or with a per-rank
/// cap.
void require_filter_fits_caps(const Config& config, std::span<const PlanSettings> passes,
                              std::span<const std::string> profiles);

/// Throws ConfigError if a step has more updates (batch.mini_batches) than samples (batch.global_batch). Does
/// not consider the last step of an epoch, which may have fewer samples.
void require_samples_for_updates(const Config& config);

}  // namespace evenkeel
