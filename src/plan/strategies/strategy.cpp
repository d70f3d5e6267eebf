#include "plan/strategies/strategy.hpp"

#include "balance/partition/automatic.hpp"
#include "balance/partition/speed_partition.hpp"
#include "balance/partition/two_costs.hpp"
#include "plan/micro_batches/micro_batches.hpp"
#include "plan/strategies/fixed_micro_batches.hpp"
#include "plan/strategies/flexible_groups.hpp"
#include "plan/strategies/grid_micro_batches.hpp"
#include "plan/strategies/packed_micro_batches.hpp"
#include "plan/strategies/padded_micro_batches.hpp"
#include "plan/strategies/preset_micro_batches.hpp"

namespace evenkeel {

void PlanningStrategy::require_samples_fit(const LengthTable& table, const PlanSettings& settings) const {
  require_below_cap(table, settings);
}

Partition PlanningStrategy::assign_automatically(const AssignedWork& work,
                                                 const PlanSettings& settings) const {
  const BalanceSettings& balance = settings.balance;
  if (balance.encoder)
    return partition_by_two_costs({work.costs, work.encoder_costs}, settings.dp).with_sorted_items();
  if (!balance.speeds.empty()) return partition_by_speed(work.costs, balance.speeds).with_sorted_items();
  const GroupSize group_size = balance.equal_count ? GroupSize::equal : GroupSize::free;
  return balance_items(work.costs, settings.dp, group_size, balance.refine).with_sorted_items();
}

const PlanningStrategy& strategy_of(const PlanSettings& settings) noexcept {
  static const PackedStrategy packed;
  static const FixedStrategy fixed;
  static const PaddedStrategy padded;
  static const PresetPackedStrategy preset_packed;
  static const PresetFixedStrategy preset_fixed;
  static const PresetPaddedStrategy preset_padded;
  static const GridStrategy grid;
  static const ContextTreeStrategy tree;
  static const ContextWavesStrategy waves;
  const bool is_grid = settings.balance.strategy == Strategy::grid;
  if (settings.flexible && is_grid) return waves;
  if (settings.flexible) return tree;
  if (is_grid) return grid;
  const bool is_preset = settings.balance.preset != Preset::none;
  switch (settings.micro_batch.mode) {
    case MicroBatchMode::fixed:
      if (is_preset) return preset_fixed;
      return fixed;
    case MicroBatchMode::padded:
      if (is_preset) return preset_padded;
      return padded;
    case MicroBatchMode::packed:
      break;
  }
  if (is_preset) return preset_packed;
  return packed;
}

}  // namespace evenkeel
