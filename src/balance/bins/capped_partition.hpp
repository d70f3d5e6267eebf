#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "evenkeel/balance/bin_packing.hpp"
#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// Number of groups that items need under limits. The number is exact if both members are equal.
struct GroupCount {
  std::int64_t lower_bound = 0;  ///< no packing has fewer groups
  std::int64_t needed = 0;       ///< smallest number for which a packing was found; >= lower_bound

  friend bool operator==(const GroupCount&, const GroupCount&) = default;
};

/// Returns the smallest number of groups for which a packing under `limits` is found:
/// 1. Pack by first-fit-decreasing, best-fit-decreasing and modified first-fit-decreasing.
/// 2. Try up to 64 smaller numbers of groups (fewer if n > 65536), from the lowest up to the first success:
///    Karmarkar-Karp on costs, then Karmarkar-Karp and longest processing time on sizes, both improved by
///    exchanges. Above 16384 groups, longest processing time replaces Karmarkar-Karp.
/// 3. For up to 512 items, search exhaustively for a packing with one group fewer, and repeat this after each
///    success. The search proves that there is no such packing, or stops after examining 2^16 + 1024 n items,
///    so the result does not depend on the speed of the machine.
///
/// `costs` and `items` have n entries each. Throws LimitError naming the first item that exceeds the limits
/// on its own, and InputError for negative costs or sizes, counts below 1, lists of different lengths, and
/// sums of 2^62 or more. O(n log n) if packing by descending size meets the lower bound.
[[nodiscard]] GroupCount count_groups(std::span<const Cost> costs, BinItems items, BinLimits limits);

/// A group before any items are assigned to it.
struct EmptyGroup {
  Cost cost = 0;  ///< cost of the group without items
  BinLimits limits{};
};

/// Longest processing time under limits: assigns items in descending order of cost, each to the cheapest
/// group with room. Returns nullopt if an item does not fit in any group, or if the search examines more than
/// 64 * (items + groups) candidate groups in total. Groups keep their order. Deterministic, local.
[[nodiscard]] std::optional<Partition> lpt_under_limits(std::span<const Cost> costs, BinItems items,
                                                        std::span<const EmptyGroup> groups);

/// How thoroughly partition_under_limits() balances groups.
enum class ExchangeMethod : std::uint8_t {
  by_items,  ///< by moves and swaps of single items
  /// Like by_items, and also by exchanges of sets of items and from one more starting partition. Takes
  /// milliseconds.
  by_sets,
};

/// Partitions n items into exactly k groups, balanced on `costs`, and keeps every group within `limits`.
/// Groups may be empty if k > n.
/// 1. Make starting partitions within the limits: Karmarkar-Karp on costs (up to 16384 groups, since it is
///    slow above that); longest processing time; with ExchangeMethod::by_sets, lpt_under_limits(); and bins
///    packed by descending size, split by cost until there are k groups.
/// 2. Improve each start by exchanges that stay within the limits.
/// 3. Return the first result within 10 parts per million of max_sum_lower_bound(); if there is none, the
///    most even result. Groups are in descending order of (cost, count, first item), with items in ascending
///    order.
///
/// Succeeds for every k >= count_groups(costs, items, limits).needed (also k = 0 without items). Throws
/// LimitError if no packing into k groups is found, InputError if k < 1 (except for k = 0 without items), and
/// the same errors as count_groups() for invalid items. The balanced costs and the limited sizes may be
/// different quantities. Deterministic, local. The amount of work for the improvement is limited by an
/// operation count, O(n), not by time.
[[nodiscard]] Partition partition_under_limits(std::span<const Cost> costs, BinItems items, BinLimits limits,
                                               std::int64_t k,
                                               ExchangeMethod even = ExchangeMethod::by_items);

/// Same as partition_under_limits(), but returns nullopt if no packing into k groups is found.
[[nodiscard]] std::optional<Partition> try_partition_under_limits(
    std::span<const Cost> costs, BinItems items, BinLimits limits, std::int64_t k,
    ExchangeMethod even = ExchangeMethod::by_items);

}  // namespace evenkeel
