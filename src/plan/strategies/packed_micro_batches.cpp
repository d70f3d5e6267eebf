#include "plan/strategies/packed_micro_batches.hpp"

#include "balance/bins/capped_partition.hpp"
#include "plan/micro_batches/micro_batches.hpp"
#include "plan/units/pack_units.hpp"

namespace evenkeel {
namespace {

/// Exactly `count` bins, some empty where an algorithm makes fewer.
Partition in_bins(BinItems items, const BinLimits& limits, BinPacking packing, std::int64_t count) {
  std::vector<std::vector<Item>> bins = pack_bins(items, limits, packing).with_sorted_items().to_vectors();
  bins.resize(static_cast<std::size_t>(count));
  return Partition(bins);
}

}  // namespace

GroupCount PackedMicroBatcher::count(MiniBatchShare share) const {
  const std::optional<BinPacking>& packing = settings().find<PackedSettings>()->packing;
  if (!packing) return count_micro_batches(units(), units_of(share));
  const PickedUnits own(units(), units_of(share));
  return {fewest_micro_batches(units(), units_of(share)),
          pack_bins(own.items(), units().limits(), *packing).size()};
}

std::vector<MicroBatchPlan> PackedMicroBatcher::packed(MiniBatchShare share, std::int64_t count) const {
  const std::optional<BinPacking>& packing = settings().find<PackedSettings>()->packing;
  const BinLimits& limits = units().limits();
  const PickedUnits own(units(), units_of(share));
  const Partition groups =
      packing ? in_bins(own.items(), limits, *packing, count)
              : partition_under_limits(own.costs, own.items(), limits, count).with_sorted_items();
  std::vector<MicroBatchPlan> micro_batches;
  for (std::int64_t g = 0; g < groups.size(); ++g)
    micro_batches.push_back(micro_batch_of(units(), picked(units_of(share), groups[g])));
  order_micro_batches(micro_batches, settings(), settings().dp);
  return micro_batches;
}

std::unique_ptr<const MicroBatcher> PackedStrategy::micro_batcher(const StepProblem& problem,
                                                                  const StepAssignment& assignment) const {
  return std::make_unique<PackedMicroBatcher>(problem, assignment);
}

}  // namespace evenkeel
