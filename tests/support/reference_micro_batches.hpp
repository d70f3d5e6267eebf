#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "plan/reference/micro_batches.hpp"

namespace evenkeel::testing_support {

/// The micro-batches of all DP ranks, each with the agreed count. `ranks` has the lengths of each rank's
/// samples.
template <typename Batching>
std::vector<Partition> reference_micro_batches_of_ranks(std::span<const std::vector<std::int64_t>> ranks,
                                                        const Batching& batching) {
  std::int64_t largest = 0;
  for (const auto& lengths : ranks) largest = std::max(largest, reference_count(lengths, batching));
  std::vector<Partition> micro_batches;
  for (const auto& lengths : ranks) {
    micro_batches.push_back(reference_micro_batches(lengths, agreed_count(largest, batching), batching));
  }
  return micro_batches;
}

}  // namespace evenkeel::testing_support
