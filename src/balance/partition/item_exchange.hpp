#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "balance/partition/item_order.hpp"
#include "evenkeel/balance/bin_packing.hpp"
#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// What exchanges between groups must keep.
struct ExchangeRules {
  bool keep_counts = false;  ///< swaps only
  BinItems items{};          ///< what `limits` bound; without sizes when none is limited
  BinLimits limits{};

  [[nodiscard]] std::int64_t size_of(Item item) const {
    return items.sizes.empty() ? 0 : items.sizes[static_cast<std::size_t>(item)];
  }
  [[nodiscard]] std::int64_t count_of(Item item) const { return items.count_of(item); }
};

/// A group that items leave and enter.
struct ItemGroup {
  Cost cost = 0;
  std::int64_t size = 0;
  std::int64_t count = 0;
  std::vector<CostedItem> items;  ///< ascending

  [[nodiscard]] bool is_full(const ExchangeRules& rules) const { return count >= rules.limits.max_items; }

  CostedItem take(std::size_t position, const ExchangeRules& rules);
  void put(const CostedItem& entry, const ExchangeRules& rules);
};

/// Positions in the lists of the giving group and of the receiving one. `given` leaves the giver; `taken`, if
/// any, comes back for it.
struct Exchange {
  std::size_t given = 0;
  std::optional<std::size_t> taken;

  void apply(ItemGroup& giver, ItemGroup& receiver, const ExchangeRules& rules) const;
};

/// How much cost an exchange should bring from the giver to the receiver: above 0, at most `most`, as near to
/// half of `twice_ideal` as can be, and nearer to it than 0 is.
struct WantedShift {
  Cost twice_ideal = 0;
  Cost most = 0;
};

/// The exchange that comes nearest to the wanted shift, of those near the ideal that keep the rules; nothing
/// when there is none. O(items of both).
[[nodiscard]] std::optional<Exchange> find_exchange(const ItemGroup& giver, const ItemGroup& receiver,
                                                    WantedShift wanted, const ExchangeRules& rules);

/// Makes the largest sum of `start` smaller: an item moves from the heaviest group to a lighter one, or two
/// items are swapped, whichever brings the two sums nearest to each other, until max_sum_lower_bound is
/// reached, no exchange with any group helps, or the work bound is used up. With GroupSize::equal items are
/// only swapped, so that every group keeps its count.
///
/// The largest sum is never above that of `start`. Groups keep their places; those that were looked at list
/// their items by rising (cost, item), the others are as they were, and all are when nothing helped.
///
/// Deterministic: the work is bounded by a count, O(n), not by a clock; sorting the groups looked at costs
/// O(n log(n/k)) at most. Local. Precondition: `start` holds each item of `costs` once. Throws InputError
/// when it has another number of items, when GroupSize::equal is asked for and its counts differ by more than
/// one, and as karmarkar_karp does.
///
/// Example: costs {4, 3, 3, 2, 2}, start {0, 1, 2}, {3, 4}, free gives {2, 0}, {3, 4, 1}.
[[nodiscard]] Partition refine(std::span<const Cost> costs, Partition start, GroupSize group_size);

}  // namespace evenkeel
