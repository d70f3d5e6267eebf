#include "evenkeel/plan/settings.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include "checks.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {

using plan_checks::require_at_least;

std::int64_t PlanSettings::alignment() const {
  const std::int64_t rounding = micro_batch.mode == MicroBatchMode::padded
                                    ? std::lcm(align_lcm, std::max<std::int64_t>(1, micro_batch.length_round))
                                    : align_lcm;
  if (!align) return sequence_alignment(tp, cp, rounding);
  if (*align < 1 || *align % cp.chunks() != 0) {
    throw ConfigError("pack.align",
                      std::to_string(*align) + " does not fit the context-parallel cut into " +
                          std::to_string(cp.chunks()) + " chunks",
                      "Use a multiple of " + std::to_string(cp.chunks()) + ", or auto");
  }
  return std::lcm(*align, rounding);
}

std::int64_t PlanSettings::count_multiple() const noexcept {
  return micro_batch.multiple_of.value_or(vpp > 1 ? pp : 1);
}

void PlanSettings::validate() const {
  require_at_least(1, dp, "mesh.dp");
  require_at_least(1, tp, "mesh.tp");
  require_at_least(1, cp.size, "mesh.cp");
  require_at_least(1, pp, "mesh.pp");
  require_at_least(1, vpp, "mesh.vpp");
  require_at_least(1, align_lcm, "pack.align_lcm");
  require_at_least(1, micro_batch.max_tokens, "micro_batch.max_tokens");
  require_at_least(1, micro_batch.max_samples.value_or(1), "micro_batch.max_samples");
  require_at_least(1, micro_batch.min_count, "micro_batch.min_count");
  require_at_least(1, count_multiple(), "micro_batch.multiple_of");
  require_at_least(1, micro_batch.size, "micro_batch.size");
  require_at_least(1, micro_batch.length_round, "micro_batch.length_round");
  require_at_least(1, mini_batches.count, "batch.mini_batches");
  if (sharing != PrefixSharing::none &&
      (micro_batch.mode != MicroBatchMode::packed || balance.preset != Preset::none)) {
    throw ConfigError("prefix.share", "needs packed micro-batches and Evenkeel's own planning",
                      "Set micro_batch.mode: packed and balance.preset: none, or prefix.share: false");
  }
  if (micro_batch.max_tokens < alignment()) {
    throw ConfigError("micro_batch.max_tokens",
                      "the cap of " + std::to_string(micro_batch.max_tokens) +
                          " tokens is below the alignment of one sequence, " + std::to_string(alignment()) +
                          " tokens",
                      "Raise the cap or lower tp, cp, pack.align_lcm or, for padded micro-batches, "
                      "micro_batch.length_round");
  }
}

}  // namespace evenkeel
