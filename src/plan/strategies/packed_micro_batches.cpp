#include "plan/strategies/packed_micro_batches.hpp"

#include <algorithm>
#include <iterator>

#include "balance/bins/binned_groups.hpp"
#include "balance/bins/capped_partition.hpp"
#include "cost/sum_limit.hpp"
#include "plan/micro_batches/micro_batches.hpp"
#include "plan/units/pack_units.hpp"

namespace evenkeel {
namespace {

/// Returns exactly `count` bins. If the algorithm makes fewer bins, the remaining ones are empty.
Partition pack_into_bins(BinItems items, const BinLimits& limits, BinPacking packing, std::int64_t count) {
  std::vector<std::vector<Item>> bins = pack_bins(items, limits, packing).with_sorted_items().to_vectors();
  bins.resize(static_cast<std::size_t>(count));
  return Partition(bins);
}

}  // namespace

GroupCount PackedMicroBatcher::count(MiniBatchShare share) const {
  const std::optional<BinPacking>& packing = settings().find<PackedSettings>()->packing;
  if (!packing) return count_micro_batches(units(), units_of(share));
  const PickedUnits own(units(), units_of(share));
  return {min_micro_batches_lower_bound(units(), units_of(share)),
          pack_bins(own.items(), units().limits(), *packing).size()};
}

std::vector<MicroBatchPlan> PackedMicroBatcher::pack_at_most(MiniBatchShare share,
                                                             std::int64_t agreed) const {
  const auto& own_settings = *settings().find<PackedSettings>();
  const std::optional<BinPacking>& packing = own_settings.packing;
  const std::int64_t count =
      own_settings.free_counts ? agreed_count(this->count(share).needed, settings()) : agreed;
  const BinLimits& limits = units().limits();
  const PickedUnits own(units(), units_of(share));
  const Partition groups =
      packing ? pack_into_bins(own.items(), limits, *packing, count)
              : partition_under_limits(own.costs, own.items(), limits, count).with_sorted_items();
  std::vector<MicroBatchPlan> micro_batches;
  for (std::int64_t g = 0; g < groups.size(); ++g)
    micro_batches.push_back(micro_batch_of(units(), pick(units_of(share), groups[g])));
  order_micro_batches(micro_batches, settings(), settings().dp);
  return micro_batches;
}

void PackedMicroBatcher::complete(std::vector<MicroBatchPlan>& micro_batches, MiniBatchShare share,
                                  std::int64_t count) const {
  const bool free_counts = settings().find<PackedSettings>()->free_counts;
  MicroBatcher::complete(micro_batches, share, free_counts ? std::ssize(micro_batches) : count);
}

Partition PackedStrategy::assign_automatically(const AssignedWork& work, const PlanSettings& settings) const {
  const auto& own = *settings.find<PackedSettings>();
  const bool counts_bins = !own.equal_count && own.refine && !own.packing && !settings.balance.encoder &&
                           settings.balance.speeds.empty() && !work.items.sizes.empty();
  if (!counts_bins) return HierarchicalStrategy::assign_automatically(work, settings);
  BinnedGroups groups{.groups = settings.dp,
                      .limits = work.limits,
                      .least_bins = settings.micro_batch.min_count,
                      .multiple_of = settings.count_multiple(),
                      .equal_bins = !own.free_counts};
  const Cost most = sum_limit / (std::ssize(work.costs) + agreed_count(1, settings));
  groups.bin_cost = std::min(settings.communication_cost().overhead, most);
  return balance_binned_items(work.costs, work.items, groups).with_sorted_items();
}

std::unique_ptr<const MicroBatcher> PackedStrategy::make_micro_batcher(
    const StepProblem& problem, const StepAssignment& assignment) const {
  return std::make_unique<PackedMicroBatcher>(problem, assignment);
}

}  // namespace evenkeel
