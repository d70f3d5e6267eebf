#pragma once

#include <span>
#include <vector>

#include "evenkeel/balance/capped_partition.hpp"
#include "evenkeel/plan/settings.hpp"

namespace evenkeel {

/// What a DP rank packs: the work, the aligned tokens and the samples of each thing that stays whole, and
/// what a micro-batch may hold.
struct PackedWork {
  std::vector<Cost> costs;
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> samples;  ///< empty: one each
  BinLimits limits;

  [[nodiscard]] BinItems items() const { return {sizes, samples}; }
};

/// How many micro-batches it needs, by the settings' way of packing.
[[nodiscard]] GroupCount count_needed(const PackedWork& work, const MicroBatchSettings& settings);

/// Exactly `count` groups, items ascending, some empty where a way of packing makes fewer. Precondition:
/// count
/// >= count_needed(...).needed.
[[nodiscard]] Partition pack_into(const PackedWork& work, std::int64_t count,
                                  const MicroBatchSettings& settings);

}  // namespace evenkeel
