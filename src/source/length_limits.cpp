#include "source/length_limits.hpp"

#include <algorithm>

#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

/// Returns whether any pass has a per-rank cap, in which case its total cap depends on the mesh.
bool caps_depend_on_mesh(const Config& config, std::span<const std::string> profiles) {
  if (profiles.empty()) return config.micro_batch.max_tokens_per_rank.has_value();
  return std::ranges::any_of(profiles, [&](const std::string& name) {
    if (name.empty()) return config.micro_batch.max_tokens_per_rank.has_value();
    const auto found = config.profiles.find(name);
    return found != config.profiles.end() && found->second.micro_batch.max_tokens_per_rank.has_value();
  });
}

}  // namespace

std::int64_t max_length_for_filter(const Config& config, std::span<const PlanSettings> passes) {
  if (config.filter.max_length) return *config.filter.max_length;
  const auto cap = [](const PlanSettings& pass) {
    return std::min(pass.micro_batch.max_tokens, pass.max_path_tokens.value_or(pass.micro_batch.max_tokens));
  };
  return cap(std::ranges::min(passes, {}, cap));
}

// The filter's limit must not depend on the mesh. However, a sample that passes the filter must also fit into
// a micro-batch after its length is rounded up to the mesh's alignment, so this function checks that it does.
void require_filter_fits_caps(const Config& config, std::span<const PlanSettings> passes,
                              std::span<const std::string> profiles) {
  if (config.filter.too_long == TooLong::error) return;
  if (!config.filter.max_length && config.mesh.flexible_cp) {
    throw ConfigError(
        "batch.max_length",
        "is auto, but with mesh.cp: flexible the longest sample that fits depends on the number "
        "of ranks",
        "Set it to a number of tokens");
  }
  if (!config.filter.max_length && caps_depend_on_mesh(config, profiles)) {
    throw ConfigError("batch.max_length",
                      "is auto, but with micro_batch.max_tokens_per_rank the longest sample that fits "
                      "depends on mesh.cp, and which samples a job reads must not depend on the mesh",
                      "Set it to a number of tokens");
  }
  const std::int64_t length = max_length_for_filter(config, passes);
  if (config.max_path_tokens && length > *config.max_path_tokens) {
    throw ConfigError("batch.max_length",
                      "lets samples of " + format_plain_count(length, "token") +
                          " through, which are above prefix.max_path_tokens, " +
                          std::to_string(*config.max_path_tokens),
                      "Set it to " + std::to_string(*config.max_path_tokens) + " or less, or to auto");
  }
  for (const PlanSettings& pass : passes) {
    const std::int64_t alignment = pass.alignment(pass.largest_group());
    const std::int64_t cap = pass.cap(pass.largest_group());
    const std::int64_t fitting = cap / alignment * alignment;
    if (length <= fitting) continue;
    throw ConfigError("batch.max_length",
                      "lets samples of " + format_plain_count(length, "token") +
                          " through, which are aligned to multiples of " + std::to_string(alignment) +
                          " and then exceed the cap of " + format_plain_count(cap, "token"),
                      "Set it to " + std::to_string(fitting) +
                          " or less; it is not derived from the mesh, since which samples a job reads must "
                          "not depend on it");
  }
}

void require_samples_for_updates(const Config& config) {
  const std::int64_t updates = config.mini_batches.count;
  if (updates <= config.batch.global_batch) return;
  throw ConfigError("batch.mini_batches",
                    "is " + std::to_string(updates) + ", but a step has " +
                        format_plain_count(config.batch.global_batch, "sample") +
                        " (batch.global_batch): some updates would have no samples",
                    "Lower it, or raise batch.global_batch");
}

std::vector<PlanSettings> settings_of_passes(const GridPoint& sizes, const Config& config,
                                             std::span<const std::string> profiles) {
  std::vector<PlanSettings> passes;
  for (const std::string& profile : profiles) passes.push_back(config.plan_settings(sizes, profile));
  if (passes.empty()) passes.push_back(config.plan_settings(sizes));
  return passes;
}

}  // namespace evenkeel
