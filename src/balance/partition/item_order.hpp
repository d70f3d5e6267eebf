#pragma once

#include <compare>
#include <span>
#include <vector>

#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// An item beside its cost; ordered by (cost, item), the total order every algorithm here breaks ties with.
struct CostedItem {
  Cost cost = 0;
  Item item = 0;

  friend auto operator<=>(const CostedItem&, const CostedItem&) = default;
};

/// The items by rising (cost, item). Precondition: no cost is negative. O(n) for costs of bounded width.
std::vector<CostedItem> ascending_items(std::span<const Cost> costs);

/// The items by falling (cost, item): of equal costs the larger item first.
std::vector<CostedItem> descending_items(std::span<const Cost> costs);

/// The items by falling cost, of equal costs the smaller item first.
std::vector<CostedItem> descending_items_smaller_first(std::span<const Cost> costs);

}  // namespace evenkeel
