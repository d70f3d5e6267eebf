#pragma once

#include <cstdint>
#include <span>

#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// Two kinds of work per item: an encoder's work, and the work of the model after it. Groups process one kind
/// after the other, and all groups wait for each other in between. Both costs have the same unit; the lists
/// have equal lengths.
struct TwoCosts {
  std::span<const Cost> model;
  std::span<const Cost> encoder;
};

/// Partitions n items into k groups. Minimizes the largest group sum of the kind with more total work first,
/// and the largest group sum of the other kind second:
/// 1. Start from balance_items() on the first kind.
/// 2. Move or swap items of the group that has the most work of the second kind, to even out the second kind.
///    No group's sum of the first kind may exceed the start's maximum by more than 1/512.
/// If the second kind has no work, the result is that of balance_items().
///
/// Deterministic, local; takes O(n) more time than balance_items(). Throws InputError if the lists differ in
/// length, k < 1, a cost is negative, or the costs of one kind sum to 2^62 or more.
///
/// Example: model costs {4, 4, 2, 2}, encoder costs {3, 0, 3, 0} and k = 2 give {0, 3} and {1, 2}, with sums
/// of 6 and 3 each. Balancing the model only could give {0, 2} and {1, 3}, with 6 and 0 for the encoder.
[[nodiscard]] Partition partition_by_two_costs(const TwoCosts& costs, std::int64_t k);

}  // namespace evenkeel
