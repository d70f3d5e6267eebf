#include "balance/partition/item_order.hpp"

#include <algorithm>
#include <string>

#include "base/list_checks.hpp"
#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {

std::vector<CostedItem> ascending_items(std::span<const Cost> costs) {
  EVENKEEL_PRECONDITION(thorough, are_all_nonnegative(costs), costs.size());
  std::vector<CostedItem> items(costs.size());
  for (std::size_t i = 0; i < costs.size(); ++i) items[i] = {costs[i], static_cast<Item>(i)};
  constexpr std::size_t radix_pays_off = 128;
  if (items.size() < radix_pays_off) {
    std::ranges::sort(items);
  } else {
    std::vector<CostedItem> scratch(items.size());
    radix_sort(std::span(items), std::span(scratch),
               [](const CostedItem& entry) { return static_cast<std::uint64_t>(entry.cost); });
  }
  return items;
}

std::vector<CostedItem> descending_items(std::span<const Cost> costs) {
  std::vector<CostedItem> items = ascending_items(costs);
  std::ranges::reverse(items);
  return items;
}

std::vector<CostedItem> descending_items_smaller_first(std::span<const Cost> costs) {
  std::vector<CostedItem> items = descending_items(costs);
  for (auto run = items.begin(); run != items.end();) {
    const auto end =
        std::find_if(run, items.end(), [&](const CostedItem& entry) { return entry.cost != run->cost; });
    std::reverse(run, end);
    run = end;
  }
  return items;
}

std::vector<std::int64_t> inverse_order(std::span<const Item> order) {
  const auto n = static_cast<std::int64_t>(order.size());
  std::vector<std::int64_t> inverse(order.size(), -1);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Item item = order[i];
    if (item < 0 || item >= n) {
      throw InputError("order[" + std::to_string(i) + "]",
                       "is " + std::to_string(item) + "; it must be from 0 to " + std::to_string(n - 1));
    }
    std::int64_t& at = inverse[static_cast<std::size_t>(item)];
    if (at >= 0) {
      throw InputError("order[" + std::to_string(i) + "]",
                       "is " + std::to_string(item) + ", which is already at position " + std::to_string(at) +
                           "; each item must occur once");
    }
    at = static_cast<std::int64_t>(i);
  }
  return inverse;
}

}  // namespace evenkeel
