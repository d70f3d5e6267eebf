#include "plan/strategies/preset_micro_batches.hpp"

#include "balance/bins/capped_partition.hpp"
#include "balance/partition/lpt.hpp"
#include "plan/micro_batches/micro_batches.hpp"
#include "plan/reference/micro_batches.hpp"
#include "plan/units/pack_units.hpp"

namespace evenkeel {
namespace {

Preset system_of(const PlanSettings& settings) {
  return std::get<ReferenceSettings>(settings.strategy).system;
}

/// Calls `use` with the batching settings of the preset's system.
template <typename Use>
auto visit_batching(const PlanSettings& settings, Use use) {
  const MicroBatchSettings& m = settings.micro_batch;
  switch (system_of(settings)) {
    case Preset::mindspeed_rl:
      return use(MindSpeedBatching{m.max_tokens, m.max_samples});
    case Preset::roll:
      return use(RollPacking{m.max_tokens, m.min_count, settings.count_multiple(), settings.alignment()});
    case Preset::verl:
    case Preset::none:
      break;
  }
  return use(VerlBatching{m.max_tokens, m.min_count, settings.count_multiple(),
                          m.order == MicroBatchOrder::pipeline});
}

}  // namespace

std::string_view name_of(Preset preset) noexcept {
  switch (preset) {
    case Preset::mindspeed_rl:
      return "mindspeed-rl";
    case Preset::roll:
      return "roll";
    case Preset::verl:
      return "verl";
    case Preset::none:
      break;
  }
  return {};
}

Partition assign_with_preset(std::span<const std::int64_t> lengths, const PlanSettings& settings) {
  if (system_of(settings) == Preset::mindspeed_rl)
    return longest_processing_time(lengths, settings.dp, GroupSize::equal).with_sorted_items();
  return roll_batch_balance(lengths, settings.dp);
}

GroupCount PresetMicroBatcher::count(MiniBatchShare share) const {
  const std::vector<std::int64_t> lengths = pick(units().rows(), units_of(share));
  const std::int64_t needed =
      visit_batching(settings(), [&](const auto& batching) { return reference_count(lengths, batching); });
  const PickedUnits own(units(), units_of(share));
  return {count_groups(own.costs, own.items(), settings().limits()).lower_bound, needed};
}

std::vector<MicroBatchPlan> PresetMicroBatcher::pack_at_most(MiniBatchShare share, std::int64_t count) const {
  const std::vector<std::int64_t> lengths = pick(units().rows(), units_of(share));
  const Partition groups = visit_batching(
      settings(), [&](const auto& batching) { return reference_micro_batches(lengths, count, batching); });
  std::vector<MicroBatchPlan> micro_batches;
  for (std::int64_t g = 0; g < groups.size(); ++g)
    micro_batches.push_back(micro_batch_of(units(), pick(units_of(share), groups[g])));
  return micro_batches;
}

std::unique_ptr<const MicroBatcher> PresetPackedStrategy::make_micro_batcher(
    const StepProblem& problem, const StepAssignment& assignment) const {
  return std::make_unique<PresetMicroBatcher>(problem, assignment);
}

}  // namespace evenkeel
