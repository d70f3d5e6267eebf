#include "group_packing.hpp"

namespace evenkeel {

GroupCount count_needed(const PackedWork& work, const MicroBatchSettings& settings) {
  if (!settings.packing) return count_groups(work.costs, work.items(), work.limits);
  return {min_bins_lower_bound(work.items(), work.limits),
          pack_bins(work.items(), work.limits, *settings.packing).size()};
}

Partition pack_into(const PackedWork& work, std::int64_t count, const MicroBatchSettings& settings) {
  if (!settings.packing)
    return partition_under_limits(work.costs, work.items(), work.limits, count).with_sorted_items();
  std::vector<std::vector<Item>> bins =
      pack_bins(work.items(), work.limits, *settings.packing).with_sorted_items().to_vectors();
  bins.resize(static_cast<std::size_t>(count));
  return Partition(bins);
}

}  // namespace evenkeel
