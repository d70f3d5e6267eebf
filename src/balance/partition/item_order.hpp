#pragma once

#include <array>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "evenkeel/balance/bin_packing.hpp"
#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// Sorts `values` by ascending `key(value)`, an unsigned 64-bit number. Stable. Sorts by the least
/// significant byte first, with one pass per byte of the largest key. `scratch` has the same length and is
/// overwritten. O(n) per byte.
template <typename T, typename Key>
void radix_sort(std::span<T> values, std::span<T> scratch, Key key) {
  constexpr int digit_bits = 8;
  constexpr std::uint64_t digit_mask = (1U << digit_bits) - 1;
  std::uint64_t used_bits = 0;
  for (const T& value : values) used_bits |= key(value);

  std::span<T> from = values;
  std::span<T> to = scratch;
  const int key_bits = static_cast<int>(std::bit_width(used_bits));
  for (int shift = 0; shift < key_bits; shift += digit_bits) {
    std::array<std::size_t, digit_mask + 1> position{};
    for (const T& value : from) ++position[(key(value) >> shift) & digit_mask];
    std::size_t start = 0;
    for (std::size_t& entry : position) start += std::exchange(entry, start);
    for (const T& value : from) to[position[(key(value) >> shift) & digit_mask]++] = value;
    std::swap(from, to);
  }
  if (from.data() != values.data()) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = from[i];
  }
}

/// An item with its cost. The order (cost, item) is the total order by which all algorithms here break ties.
struct CostedItem {
  Cost cost = 0;
  Item item = 0;

  friend auto operator<=>(const CostedItem&, const CostedItem&) = default;
};

/// Returns the items by ascending (cost, item). Precondition: costs are non-negative. O(n) for costs of
/// bounded width.
std::vector<CostedItem> ascending_items(std::span<const Cost> costs);

/// Returns the items by descending (cost, item), so if costs are equal, the item with the higher number is
/// first.
std::vector<CostedItem> descending_items(std::span<const Cost> costs);

/// Returns the items by descending cost; if costs are equal, the item with the lower number is first.
std::vector<CostedItem> descending_items_smaller_first(std::span<const Cost> costs);

/// Returns the position of each item in `order`: inverse_order(order)[order[i]] = i. Throws InputError if
/// `order` does not contain each of 0..n-1 once. O(n).
///
/// Example: {2, 0, 1} gives {1, 2, 0}.
[[nodiscard]] std::vector<std::int64_t> inverse_order(std::span<const Item> order);

/// A copy of the sizes and counts of some items of a list.
class PickedItems {
 public:
  PickedItems(BinItems all, std::span<const Item> picked) {
    sizes_.reserve(picked.size());
    for (const Item item : picked) sizes_.push_back(all.sizes[static_cast<std::size_t>(item)]);
    if (all.counts.empty()) return;
    counts_.reserve(picked.size());
    for (const Item item : picked) counts_.push_back(all.count_of(item));
  }

  /// Returns views of the copied sizes and counts.
  [[nodiscard]] BinItems items() const { return {sizes_, counts_}; }

 private:
  std::vector<std::int64_t> sizes_;
  std::vector<std::int64_t> counts_;
};

}  // namespace evenkeel
