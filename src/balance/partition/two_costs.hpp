#pragma once

#include <cstdint>
#include <span>

#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// Work of two kinds that items bring, and that groups do one after the other, meeting in between: that of an
/// encoder and that of the model behind it. In one unit; lists of equal length.
struct TwoCosts {
  std::span<const Cost> model;
  std::span<const Cost> encoder;
};

/// Partitions n items into k groups whose largest sums are small, first of the kind of which there is more in
/// all, then of the other. The first is at most a thousandth above that of balance_items, which knows no
/// other kind and is where this begins. Then items move out of the group that has most of the other kind, or
/// are swapped, which evens out that kind well while no group gets more than that of the first. Where the
/// other kind has no work at all the result is that of balance_items.
///
/// Deterministic, local; the work is bounded by a count, O(n), beside that of balance_items. Throws
/// InputError when the lists differ in length, and as karmarkar_karp does for either.
///
/// Example: model costs {4, 4, 2, 2}, encoder costs {3, 0, 3, 0}, k = 2: {0, 3} and {1, 2} have sums of 6 and
/// of 3 each, where by the model alone {0, 2} and {1, 3} were as good, with 6 and 0 for the encoder.
[[nodiscard]] Partition partition_by_two_costs(const TwoCosts& costs, std::int64_t k);

}  // namespace evenkeel
