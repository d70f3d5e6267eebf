#include "evenkeel/balance/bin_packing.hpp"

#include <algorithm>
#include <bit>
#include <set>
#include <utility>
#include <vector>

#include "checks.hpp"
#include "item_order.hpp"

namespace evenkeel {

namespace {

/// The room left in each of a row of bins, as a tree of maxima: finds the earliest bin with room in O(log n).
class EarliestRoom {
 public:
  EarliestRoom(std::size_t bins, std::int64_t room) : leaves_(std::bit_ceil(std::max<std::size_t>(bins, 1))) {
    most_.assign(2 * leaves_, room);
  }

  [[nodiscard]] std::int64_t room(std::size_t bin) const { return most_[leaves_ + bin]; }

  /// Precondition: some bin has that room.
  [[nodiscard]] std::size_t find(std::int64_t size) const {
    std::size_t node = 1;
    while (node < leaves_) node = most_[2 * node] >= size ? 2 * node : 2 * node + 1;
    return node - leaves_;
  }

  void set(std::size_t bin, std::int64_t room) {
    std::size_t node = leaves_ + bin;
    most_[node] = room;
    for (node /= 2; node > 0; node /= 2) most_[node] = std::max(most_[2 * node], most_[2 * node + 1]);
  }

 private:
  std::size_t leaves_;
  std::vector<std::int64_t> most_;
};

constexpr std::int64_t no_room = -1;

std::int64_t room_after(std::int64_t room, std::int64_t size, std::size_t count, BinLimits limits) {
  return static_cast<std::int64_t>(count) < limits.max_items ? room - size : no_room;
}

/// Each item into the fullest bin with room, the earliest opened on a tie.
std::vector<std::vector<Item>> best_fit(const std::vector<CostedItem>& order, BinLimits limits) {
  std::vector<std::vector<Item>> bins;
  std::set<std::pair<std::int64_t, std::size_t>> room_of_bin;
  for (const auto& [size, item] : order) {
    const auto found = room_of_bin.lower_bound({size, 0});
    std::pair<std::int64_t, std::size_t> target{limits.max_size, bins.size()};
    if (found == room_of_bin.end()) {
      bins.emplace_back();
    } else {
      target = *found;
      room_of_bin.erase(found);
    }
    const auto [room, bin] = target;
    bins[bin].push_back(item);
    const std::int64_t left = room_after(room, size, bins[bin].size(), limits);
    if (left != no_room) room_of_bin.emplace(left, bin);
  }
  return bins;
}

struct LoadedBin {
  std::int64_t load = 0;
  std::vector<Item> items;
};

/// Moves the first item that makes the two bins more even, and fits; false when there is none.
bool move_one(LoadedBin& heavy, LoadedBin& light, std::span<const std::int64_t> sizes,
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

/// From the heaviest bin that can give an item to the lightest. (No other taker need be tried: what the
/// lightest bin cannot use, no heavier one can.)
bool even_out_once(std::vector<LoadedBin>& bins, std::span<const std::int64_t> sizes, std::int64_t max_size) {
  std::ranges::stable_sort(bins, {}, &LoadedBin::load);
  for (std::size_t heavy = bins.size(); heavy-- > 1;) {
    if (move_one(bins[heavy], bins.front(), sizes, max_size)) return true;
  }
  return false;
}

}  // namespace

Partition first_fit_decreasing(std::span<const std::int64_t> sizes, BinLimits limits) {
  balance_checks::checked_sum_within(sizes, limits);
  std::vector<std::vector<Item>> bins;
  EarliestRoom rooms(sizes.size(), limits.max_size);
  for (const auto& [size, item] : descending_items_smaller_first(sizes)) {
    const std::size_t bin = rooms.find(size);
    if (bin == bins.size()) bins.emplace_back();
    bins[bin].push_back(item);
    rooms.set(bin, room_after(rooms.room(bin), size, bins[bin].size(), limits));
  }
  return Partition{bins};
}

Partition pack_bins(std::span<const std::int64_t> sizes, BinLimits limits, BinPacking algorithm) {
  switch (algorithm) {
    case BinPacking::best_fit_decreasing:
      return best_fit_decreasing(sizes, limits);
    case BinPacking::modified_first_fit_decreasing:
      return modified_first_fit_decreasing(sizes, limits);
    case BinPacking::first_fit_decreasing:
      break;
  }
  return first_fit_decreasing(sizes, limits);
}

Partition best_fit_decreasing(std::span<const std::int64_t> sizes, BinLimits limits) {
  balance_checks::checked_sum_within(sizes, limits);
  return Partition{best_fit(descending_items_smaller_first(sizes), limits)};
}

Partition balanced_bin_packing(std::span<const std::int64_t> sizes, std::int64_t max_size) {
  const BinLimits limits{.max_size = max_size};
  balance_checks::checked_sum_within(sizes, limits);
  std::vector<LoadedBin> bins;
  for (std::vector<Item>& items : best_fit(descending_items(sizes), limits)) {
    LoadedBin& bin = bins.emplace_back(LoadedBin{0, std::move(items)});
    for (const Item item : bin.items) bin.load += sizes[static_cast<std::size_t>(item)];
  }
  constexpr int passes = 3;
  for (int pass = 0; pass < passes && even_out_once(bins, sizes, max_size); ++pass) {
  }
  std::vector<std::vector<Item>> groups;
  for (LoadedBin& bin : bins) groups.push_back(std::move(bin.items));
  return Partition{groups};
}

}  // namespace evenkeel
