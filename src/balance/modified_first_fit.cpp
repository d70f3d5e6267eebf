#include <algorithm>
#include <set>
#include <vector>

#include "checks.hpp"
#include "evenkeel/balance/bin_packing.hpp"
#include "item_order.hpp"

namespace evenkeel {

namespace {

/// Bins of items above half the limit, and what is left to put beside them.
class LargeItemBins {
 public:
  LargeItemBins(std::span<const std::int64_t> sizes, BinLimits limits) : limits_(limits) {
    for (const CostedItem& entry : descending_items_smaller_first(sizes)) {
      if (entry.cost > limits.max_size / 2) {
        bins_.push_back({limits.max_size - entry.cost, {entry.item}});
      } else if (entry.cost > limits.max_size / 3) {
        medium_.insert(entry);
      } else if (entry.cost > limits.max_size / 6) {
        small_.insert(entry);
      } else {
        tiny_.insert(entry);
      }
    }
  }

  void add_a_medium_each() {
    for (Bin& bin : bins_) {
      if (can_take(bin, 1)) bin.has_medium = put_largest(bin, medium_);
    }
  }

  void add_two_small_each() {
    for (std::size_t at = bins_.size(); at-- > 0;) {
      Bin& bin = bins_[at];
      if (bin.has_medium || small_.size() < 2 || !can_take(bin, 2)) continue;
      const CostedItem smallest = *small_.begin();
      if (smallest.cost + std::next(small_.begin())->cost > bin.room) continue;
      small_.erase(small_.begin());
      put(bin, smallest);
      put_largest(bin, small_);
    }
  }

  /// Of classes that are all larger than the next, the largest item that fits is in the first that has one.
  void fill() {
    for (Bin& bin : bins_) {
      while (can_take(bin, 1) &&
             (put_largest(bin, medium_) || put_largest(bin, small_) || put_largest(bin, tiny_))) {
      }
    }
  }

  [[nodiscard]] std::vector<std::vector<Item>> take_bins() {
    std::vector<std::vector<Item>> bins;
    for (Bin& bin : bins_) bins.push_back(std::move(bin.items));
    return bins;
  }

  [[nodiscard]] std::vector<Item> left() const {
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
    std::vector<Item> items;
    bool has_medium = false;
  };

  [[nodiscard]] bool can_take(const Bin& bin, std::int64_t more) const {
    return more <= limits_.max_items - static_cast<std::int64_t>(bin.items.size());
  }

  static void put(Bin& bin, const CostedItem& entry) {
    bin.items.push_back(entry.item);
    bin.room -= entry.cost;
  }

  /// Of equal sizes the smaller item. False when none fits.
  static bool put_largest(Bin& bin, std::set<CostedItem>& kind) {
    auto above = kind.upper_bound({bin.room + 1, -1});
    if (above == kind.begin()) return false;
    const auto largest = kind.lower_bound({std::prev(above)->cost, 0});
    put(bin, *largest);
    kind.erase(largest);
    return true;
  }

  BinLimits limits_;
  std::vector<Bin> bins_;
  std::set<CostedItem> medium_;
  std::set<CostedItem> small_;
  std::set<CostedItem> tiny_;
};

}  // namespace

Partition modified_first_fit_decreasing(std::span<const std::int64_t> sizes, BinLimits limits) {
  balance_checks::checked_sum_within(sizes, limits);
  LargeItemBins large(sizes, limits);
  large.add_a_medium_each();
  large.add_two_small_each();
  large.fill();
  std::vector<std::vector<Item>> bins = large.take_bins();
  const std::vector<Item> left = large.left();
  std::vector<std::int64_t> left_sizes;
  for (const Item item : left) left_sizes.push_back(sizes[static_cast<std::size_t>(item)]);
  for (const std::vector<Item>& positions : first_fit_decreasing(left_sizes, limits).to_vectors()) {
    std::vector<Item>& bin = bins.emplace_back();
    for (const Item position : positions) bin.push_back(left[static_cast<std::size_t>(position)]);
  }
  return Partition{bins};
}

}  // namespace evenkeel
