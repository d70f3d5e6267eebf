#include "plan/strategies/packed_micro_batches.hpp"

#include "balance/bins/capped_partition.hpp"
#include "plan/micro_batches/micro_batches.hpp"
#include "plan/units/picked_units.hpp"

namespace evenkeel {
namespace {

/// Exactly `count` bins, some empty where an algorithm makes fewer.
Partition in_bins(BinItems items, const MicroBatchSettings& settings, std::int64_t count) {
  std::vector<std::vector<Item>> bins =
      pack_bins(items, settings.limits(), *settings.packing).with_sorted_items().to_vectors();
  bins.resize(static_cast<std::size_t>(count));
  return Partition(bins);
}

}  // namespace

GroupCount PackedMicroBatcher::count(MiniBatchShare share) const {
  const MicroBatchSettings& rules = settings().micro_batch;
  const PickedUnits own(units(), units_of(share));
  if (!rules.packing) return count_groups(own.costs, own.items(), rules.limits());
  return {min_bins_lower_bound(own.items(), rules.limits()),
          pack_bins(own.items(), rules.limits(), *rules.packing).size()};
}

std::vector<MicroBatchPlan> PackedMicroBatcher::packed(MiniBatchShare share, std::int64_t count) const {
  const MicroBatchSettings& rules = settings().micro_batch;
  const PickedUnits own(units(), units_of(share));
  const Partition groups =
      rules.packing
          ? in_bins(own.items(), rules, count)
          : partition_under_limits(own.costs, own.items(), rules.limits(), count).with_sorted_items();
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
