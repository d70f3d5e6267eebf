#include "evenkeel/plan/settings.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include "checks.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {

using plan_checks::require_at_least;

namespace {

/// A grid deals and packs at once, so that nothing that rules the one or the other alone fits it.
void require_fits_grid(const PlanSettings& settings) {
  const auto refuse = [](const std::string& needed, const std::string& key) {
    throw ConfigError("balance.strategy", "grid needs " + needed,
                      "Set " + key + ", or strategy: hierarchical");
  };
  const BalanceSettings& balance = settings.balance;
  if (settings.micro_batch.mode != MicroBatchMode::packed)
    refuse("packed micro-batches", "micro_batch.mode: packed");
  if (balance.preset != Preset::none) refuse("Evenkeel's own planning", "balance.preset: none");
  if (balance.algorithm != BalanceAlgorithm::automatic)
    refuse("its own algorithm", "balance.algorithm: auto");
  if (balance.equal_count) refuse("free numbers of samples", "balance.equal_count: false");
  if (settings.sharing != PrefixSharing::none) refuse("samples that stand alone", "prefix.share: false");
  if (!settings.mini_batches.keep && settings.mini_batches.count > 1)
    refuse("mini-batches that are cut first", "batch.keep_mini_batch: true");
}

}  // namespace

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
  if (balance.strategy == Strategy::grid) require_fits_grid(*this);
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
