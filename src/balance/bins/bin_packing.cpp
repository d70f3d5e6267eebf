#include <algorithm>
#include <bit>
#include <set>
#include <utility>
#include <vector>

#include "balance/checks.hpp"
#include "balance/partition/item_order.hpp"
#include "evenkeel/balance/bin_packing.hpp"
#include "evenkeel/base/assertions.hpp"

namespace evenkeel {
namespace {

constexpr std::int64_t no_room = -1;

/// Finds the earliest bin that has room, using a binary tree whose nodes store the most room of any bin below
/// them. A bin at its count limit has no room. If all items have a count of 1, every bin with room by size
/// also has room by count, so a search takes O(log n).
class EarliestRoom {
 public:
  EarliestRoom(std::size_t bins, BinLimits limits)
      : leaves_(std::bit_ceil(std::max<std::size_t>(bins, 1))), counts_(leaves_, limits.max_items) {
    most_.assign(2 * leaves_, limits.max_size);
  }

  /// Returns the earliest bin with room for an item of this size and count. Precondition: such a bin exists.
  [[nodiscard]] std::size_t find(std::int64_t size, std::int64_t count) const {
    std::size_t leaf = find_leaf_below(1, size);
    while (counts_[leaf - leaves_] < count) leaf = next_leaf_with_room(leaf, size);
    return leaf - leaves_;
  }

  void put(std::size_t bin, std::int64_t size, std::int64_t count) {
    std::size_t node = leaves_ + bin;
    counts_[bin] -= count;
    most_[node] = counts_[bin] > 0 ? most_[node] - size : no_room;
    for (node /= 2; node > 0; node /= 2) most_[node] = std::max(most_[2 * node], most_[2 * node + 1]);
  }

 private:
  /// Returns the first leaf below `node` that has room for the size. Precondition: such a leaf exists.
  [[nodiscard]] std::size_t find_leaf_below(std::size_t node, std::int64_t size) const {
    EVENKEEL_PRECONDITION(cheap, most_[node] >= size, node, most_[node], size);
    while (node < leaves_) node = most_[2 * node] >= size ? 2 * node : 2 * node + 1;
    return node;
  }
  /// Returns the first leaf after `leaf` that has room for the size. Precondition: such a leaf exists.
  [[nodiscard]] std::size_t next_leaf_with_room(std::size_t leaf, std::int64_t size) const {
    std::size_t node = leaf;
    while (node % 2 == 1 || most_[node + 1] < size) {
      EVENKEEL_PRECONDITION(cheap, node > 1, size);
      node /= 2;
    }
    return find_leaf_below(node + 1, size);
  }

  std::size_t leaves_;
  std::vector<std::int64_t> counts_;
  std::vector<std::int64_t> most_;
};

/// Puts each item into the fullest bin with room; on a tie, into the bin that was opened first. If no bin has
/// room, opens a new bin.
std::vector<std::vector<Item>> best_fit(const std::vector<CostedItem>& order, BinItems items,
                                        BinLimits limits) {
  std::vector<std::vector<Item>> bins;
  std::vector<std::int64_t> counts;
  std::set<std::pair<std::int64_t, std::size_t>> room_of_bin;
  for (const auto& [size, item] : order) {
    const std::int64_t count = items.count_of(item);
    auto found = room_of_bin.lower_bound({size, 0});
    while (found != room_of_bin.end() && count > limits.max_items - counts[found->second]) ++found;
    std::pair<std::int64_t, std::size_t> target{limits.max_size, bins.size()};
    if (found == room_of_bin.end()) {
      bins.emplace_back();
      counts.push_back(0);
    } else {
      target = *found;
      room_of_bin.erase(found);
    }
    const auto [room, bin] = target;
    bins[bin].push_back(item);
    counts[bin] += count;
    if (counts[bin] < limits.max_items) room_of_bin.emplace(room - size, bin);
  }
  return bins;
}

struct LoadedBin {
  std::int64_t load = 0;
  std::vector<Item> items;
};

/// Moves the first item of `heavy` that fits in `light` and makes the two loads more equal. Returns whether
/// an item was moved.
bool move_item_to_lighter_bin(LoadedBin& heavy, LoadedBin& light, std::span<const std::int64_t> sizes,
                              std::int64_t max_size) {
  const std::int64_t largest_useful = std::min(heavy.load - light.load - 1, max_size - light.load);
  const auto found = std::ranges::find_if(heavy.items, [&](Item item) {
    const std::int64_t size = sizes[static_cast<std::size_t>(item)];
    return size > 0 && size <= largest_useful;
  });
  if (found == heavy.items.end()) return false;
  const std::int64_t size = sizes[static_cast<std::size_t>(*found)];
  light.items.push_back(*found);
  light.load += size;
  heavy.items.erase(found);
  heavy.load -= size;
  return true;
}

/// Moves one item to the lightest bin, from the heaviest bin that has a suitable item. Returns whether an
/// item was moved. There is no need to try other receivers: an item that does not fit in the lightest bin
/// does not fit in a heavier bin.
bool move_item_to_lightest_bin(std::vector<LoadedBin>& bins, std::span<const std::int64_t> sizes,
                               std::int64_t max_size) {
  std::ranges::stable_sort(bins, {}, &LoadedBin::load);
  for (std::size_t heavy = bins.size(); heavy-- > 1;) {
    if (move_item_to_lighter_bin(bins[heavy], bins.front(), sizes, max_size)) return true;
  }
  return false;
}

/// Bins that start with one item above half the limit each, and the smaller items to add to these bins.
class LargeItemBins {
 public:
  LargeItemBins(BinItems items, BinLimits limits) : items_(items) {
    for (const CostedItem& entry : descending_items_smaller_first(items.sizes)) {
      if (entry.cost > limits.max_size / 2) {
        bins_.push_back({limits.max_size, limits.max_items, {}, false});
        put(bins_.back(), entry);
      } else if (entry.cost > limits.max_size / 3) {
        medium_.insert(entry);
      } else if (entry.cost > limits.max_size / 6) {
        small_.insert(entry);
      } else {
        tiny_.insert(entry);
      }
    }
  }

  void add_medium_item_to_each_bin() {
    for (Bin& bin : bins_) {
      bin.has_medium = put_largest(bin, medium_);
    }
  }

  void add_two_small_items_to_each_bin() {
    for (std::size_t at = bins_.size(); at-- > 0;) {
      Bin& bin = bins_[at];
      if (bin.has_medium || small_.size() < 2) continue;
      const CostedItem smallest = *small_.begin();
      const CostedItem second = *std::next(small_.begin());
      if (smallest.cost + second.cost > bin.room ||
          items_.count_of(smallest.item) + items_.count_of(second.item) > bin.count_room)
        continue;
      small_.erase(small_.begin());
      put(bin, smallest);
      put_largest(bin, small_);
    }
  }

  /// Fills each bin with the largest remaining items that fit: first medium, then small, then tiny items.
  void fill() {
    for (Bin& bin : bins_) {
      while (put_largest(bin, medium_) || put_largest(bin, small_) || put_largest(bin, tiny_)) {
      }
    }
  }

  [[nodiscard]] std::vector<std::vector<Item>> take_bins() {
    std::vector<std::vector<Item>> bins;
    for (Bin& bin : bins_) bins.push_back(std::move(bin.items));
    return bins;
  }

  [[nodiscard]] std::vector<Item> remaining_items() const {
    std::vector<Item> items;
    for (const auto* kind : {&medium_, &small_, &tiny_}) {
      for (const CostedItem& entry : *kind) items.push_back(entry.item);
    }
    std::ranges::sort(items);
    return items;
  }

 private:
  struct Bin {
    std::int64_t room = 0;
    std::int64_t count_room = 0;
    std::vector<Item> items;
    bool has_medium = false;
  };

  void put(Bin& bin, const CostedItem& entry) const {
    bin.items.push_back(entry.item);
    bin.room -= entry.cost;
    bin.count_room -= items_.count_of(entry.item);
  }

  /// Puts the largest item of `kind` that fits into the bin; on a tie, the item with the smaller number.
  /// Returns whether an item fit.
  bool put_largest(Bin& bin, std::set<CostedItem>& kind) const {
    if (bin.count_room < 1) return false;
    const auto fits = [&](const CostedItem& entry) { return items_.count_of(entry.item) <= bin.count_room; };
    for (auto above = kind.upper_bound({bin.room + 1, -1}); above != kind.begin();) {
      const auto first = kind.lower_bound({std::prev(above)->cost, 0});
      const auto found = std::find_if(first, above, fits);
      if (found != above) {
        put(bin, *found);
        kind.erase(found);
        return true;
      }
      above = first;
    }
    return false;
  }

  BinItems items_;
  std::vector<Bin> bins_;
  std::set<CostedItem> medium_;
  std::set<CostedItem> small_;
  std::set<CostedItem> tiny_;
};

}  // namespace

Partition first_fit_decreasing(BinItems items, BinLimits limits) {
  balance_checks::checked_load_within(items, limits);
  std::vector<std::vector<Item>> bins;
  EarliestRoom rooms(items.sizes.size(), limits);
  for (const auto& [size, item] : descending_items_smaller_first(items.sizes)) {
    const std::int64_t count = items.count_of(item);
    const std::size_t bin = rooms.find(size, count);
    if (bin == bins.size()) bins.emplace_back();
    bins[bin].push_back(item);
    rooms.put(bin, size, count);
  }
  return Partition{bins};
}

Partition pack_bins(BinItems items, BinLimits limits, BinPacking algorithm) {
  switch (algorithm) {
    case BinPacking::best_fit_decreasing:
      return best_fit_decreasing(items, limits);
    case BinPacking::modified_first_fit_decreasing:
      return modified_first_fit_decreasing(items, limits);
    case BinPacking::first_fit_decreasing:
      break;
  }
  return first_fit_decreasing(items, limits);
}

Partition best_fit_decreasing(BinItems items, BinLimits limits) {
  balance_checks::checked_load_within(items, limits);
  return Partition{best_fit(descending_items_smaller_first(items.sizes), items, limits)};
}

Partition balanced_bin_packing(std::span<const std::int64_t> sizes, std::int64_t max_size) {
  const BinLimits limits{.max_size = max_size};
  balance_checks::checked_load_within(sizes, limits);
  std::vector<LoadedBin> bins;
  for (std::vector<Item>& items : best_fit(descending_items(sizes), sizes, limits)) {
    LoadedBin& bin = bins.emplace_back(LoadedBin{0, std::move(items)});
    for (const Item item : bin.items) bin.load += sizes[static_cast<std::size_t>(item)];
  }
  constexpr int passes = 3;
  for (int pass = 0; pass < passes && move_item_to_lightest_bin(bins, sizes, max_size); ++pass) {
  }
  std::vector<std::vector<Item>> groups;
  for (LoadedBin& bin : bins) groups.push_back(std::move(bin.items));
  return Partition{groups};
}

Partition modified_first_fit_decreasing(BinItems items, BinLimits limits) {
  balance_checks::checked_load_within(items, limits);
  LargeItemBins large(items, limits);
  large.add_medium_item_to_each_bin();
  large.add_two_small_items_to_each_bin();
  large.fill();
  std::vector<std::vector<Item>> bins = large.take_bins();
  const std::vector<Item> left = large.remaining_items();
  const PickedItems picked(items, left);
  for (const std::vector<Item>& positions : first_fit_decreasing(picked.items(), limits).to_vectors()) {
    std::vector<Item>& bin = bins.emplace_back();
    for (const Item position : positions) bin.push_back(left[static_cast<std::size_t>(position)]);
  }
  return Partition{bins};
}

}  // namespace evenkeel
