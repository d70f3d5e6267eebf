#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "balance/partition/item_order.hpp"
#include "evenkeel/balance/bin_packing.hpp"
#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// Rules that exchanges between groups must obey.
struct ExchangeRules {
  bool keep_counts = false;  ///< whether exchanges must swap equal numbers of items
  BinItems items{};       ///< sizes and counts to which `limits` apply; without sizes, sizes are not limited
  BinLimits limits{};     ///< limits of a bin
  std::int64_t bins = 1;  ///< maximum number of bins per group, packed by first-fit-decreasing
  Cost bin_cost = 0;      ///< cost of each bin, which is added to its group's cost

  [[nodiscard]] std::int64_t size_of(Item item) const {
    return items.sizes.empty() ? 0 : items.sizes[static_cast<std::size_t>(item)];
  }
  [[nodiscard]] std::int64_t count_of(Item item) const { return items.count_of(item); }
};

/// A group whose items can be exchanged.
struct ItemGroup {
  Cost cost = 0;
  std::int64_t size = 0;
  std::int64_t count = 0;
  std::int64_t bins = 1;  ///< number of bins of the group; maintained only if ExchangeRules::bins is above 1
  std::vector<CostedItem> items;  ///< in ascending order of (cost, item)

  [[nodiscard]] bool is_full(const ExchangeRules& rules) const {
    return rules.bins == 1 && count >= rules.limits.max_items;
  }
  /// Returns the cost of the group's items and bins.
  [[nodiscard]] Cost total(const ExchangeRules& rules) const { return cost + rules.bin_cost * bins; }

  CostedItem remove_item(std::size_t position, const ExchangeRules& rules);
  void insert_sorted(const CostedItem& entry, const ExchangeRules& rules);
  /// Appends an item without sorting. The list must be sorted before items are exchanged.
  void append_unsorted(const CostedItem& entry, const ExchangeRules& rules);
};

/// A subset of a group's items: `count` positions in its list, ascending.
struct ItemSubset {
  static constexpr std::size_t most = 3;

  Cost cost = 0;
  std::uint32_t count = 0;
  std::array<std::uint32_t, most> at{};

  [[nodiscard]] std::span<const std::uint32_t> positions() const { return std::span(at).first(count); }
};

/// Returns all subsets of up to three of a group's items, including the empty one, in ascending order of
/// cost. If there would be more than 512 subsets, they have at most two items, or only one.
[[nodiscard]] std::vector<ItemSubset> small_sets(const ItemGroup& group);

/// The items that leave the giving group, and the items, if any, that the receiving group gives in return.
struct Exchange {
  ItemSubset given;
  ItemSubset taken;

  void apply(ItemGroup& giver, ItemGroup& receiver, const ExchangeRules& rules) const;
};

/// Describes the cost that an exchange should move from the giver to the receiver. The ideal is half of
/// `twice_ideal`. The moved cost must be above 0, at most `most`, and nearer to the ideal than 0 is.
struct WantedShift {
  Cost twice_ideal = 0;
  Cost most = 0;
};

/// Searches for an allowed exchange of one item of the giver for at most one item of the receiver. Returns
/// the exchange whose moved cost is closest to the ideal (see WantedShift), or nullopt if none is found. For
/// each given item, examines only the few items of the receiver that would come closest to the ideal.
/// O(items of both groups). `budget` is the number of items that may still be examined; once it is used up,
/// exchanges that require packing are skipped.
[[nodiscard]] std::optional<Exchange> find_exchange(const ItemGroup& giver, const ItemGroup& receiver,
                                                    WantedShift wanted, const ExchangeRules& rules,
                                                    std::int64_t& budget);

/// Same as find_exchange(), for exchanges of several items. `giver_sets` and `receiver_sets` are the results
/// of small_sets() for the two groups. O(sets of both groups).
[[nodiscard]] std::optional<Exchange> find_set_exchange(const ItemGroup& giver,
                                                        std::span<const ItemSubset> giver_sets,
                                                        const ItemGroup& receiver,
                                                        std::span<const ItemSubset> receiver_sets,
                                                        WantedShift wanted, const ExchangeRules& rules,
                                                        std::int64_t& budget);

/// Returns the number of bins into which first-fit-decreasing packs the items, under the rules' limits; 1 for
/// no items.
[[nodiscard]] std::int64_t count_bins(std::span<const Item> items, const ExchangeRules& rules);

/// Lowers the largest sum of `start` by exchanges:
/// 1. Move an item from the heaviest group to a lighter one, or swap two items, whichever brings the two sums
///    nearest to each other.
/// 2. If that does not help, exchange up to three items for up to three others.
/// 3. Stop when the largest sum reaches max_sum_lower_bound(), when no exchange with any group helps, or when
///    the work limit is reached.
///
/// With GroupSize::equal, every group keeps its number of items.
///
/// The largest sum is never above that of `start`. Groups keep their order. Groups that were examined for
/// exchanges list their items in ascending order of (cost, item); the other groups are unchanged. Returns
/// `start` if no exchange helps.
///
/// Deterministic, local. The amount of work is limited by an operation count, O(n), not by time; sorting
/// groups takes at most O(n log(n/k)). Precondition: `start` contains each item of `costs` once. Throws
/// InputError if `start` has a different number of items, if its counts differ by more than one with
/// GroupSize::equal, if a cost is negative, or if the costs sum to 2^62 or more.
///
/// Example: costs {4, 3, 3, 2, 2} and the start {0, 1, 2}, {3, 4} give {2, 0}, {3, 4, 1} with
/// GroupSize::free.
[[nodiscard]] Partition refine(std::span<const Cost> costs, Partition start, GroupSize group_size);

}  // namespace evenkeel
