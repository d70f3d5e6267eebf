#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "evenkeel/balance/bin_packing.hpp"
#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// How many groups a list of items needs under limits: for certain where both numbers are the same.
struct GroupCount {
  std::int64_t lower_bound = 0;  ///< no packing has fewer
  std::int64_t needed = 0;       ///< the fewest for which a packing was found; >= lower_bound

  friend bool operator==(const GroupCount&, const GroupCount&) = default;
};

/// The smallest number of groups for which a packing under `limits` was found: first-, best- and modified
/// first-fit-decreasing; at each of the 64 counts below theirs (fewer above 65536 items) Karmarkar-Karp on
/// costs, and on sizes Karmarkar-Karp and longest-processing-time, both refined; up to 512 items an exact
/// search for one group fewer and so on. That search either finds the fewest, and raises the bound to it, or
/// ends with its work, 2^16 + 1024 n items looked at: so that the answer never depends on time.
///
/// `costs` and `items` have n entries each. Throws LimitError that names the first item that is above the
/// limits alone, InputError when the lists differ in length or karmarkar_karp would. O(n log n) when falling
/// sizes meet the lower bound.
[[nodiscard]] GroupCount count_groups(std::span<const Cost> costs, BinItems items, BinLimits limits);

/// Partitions n items into exactly k groups, balanced on `costs`, none above `limits` on `items`: always.
/// Groups may be empty when k > n. Starts are Karmarkar-Karp on costs (not above 16384 groups, where that is
/// slow) and longest processing time where they keep the limits, then bins by falling size spread over k
/// groups. Each is improved by moves and swaps that keep the limits; the first that ends within 10 parts in a
/// million of max_sum_lower_bound is the result, or else the most even one. Groups come heaviest first, by
/// falling (cost, count, first item), their items ascending.
///
/// Succeeds for every k >= count_groups(costs, items, limits).needed (also k = 0 for no items); throws
/// LimitError when no packing into k groups was found, and as count_groups does. Costs (what is balanced) and
/// what is capped may be different quantities. Deterministic, local; the work of the improvement is
/// bounded by a count, O(n).
[[nodiscard]] Partition partition_under_limits(std::span<const Cost> costs, BinItems items, BinLimits limits,
                                               std::int64_t k);

/// The same; nothing where that throws because no packing into k groups was found.
[[nodiscard]] std::optional<Partition> try_partition_under_limits(std::span<const Cost> costs, BinItems items,
                                                                  BinLimits limits, std::int64_t k);

}  // namespace evenkeel
