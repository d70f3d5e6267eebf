#include <algorithm>
#include <set>
#include <vector>

#include "balance/checks.hpp"
#include "balance/partition/item_order.hpp"
#include "balance/partition/picked_items.hpp"
#include "evenkeel/balance/bin_packing.hpp"

namespace evenkeel {

namespace {

/// Bins of items above half the limit, and what is left to put beside them.
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

  void add_a_medium_each() {
    for (Bin& bin : bins_) {
      bin.has_medium = put_largest(bin, medium_);
    }
  }

  void add_two_small_each() {
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

  /// Of classes that are all larger than the next, the largest item that fits is in the first that has one.
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
    std::int64_t count_room = 0;
    std::vector<Item> items;
    bool has_medium = false;
  };

  void put(Bin& bin, const CostedItem& entry) const {
    bin.items.push_back(entry.item);
    bin.room -= entry.cost;
    bin.count_room -= items_.count_of(entry.item);
  }

  /// Of equal sizes the smaller item. False when none fits.
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

Partition modified_first_fit_decreasing(BinItems items, BinLimits limits) {
  balance_checks::checked_load_within(items, limits);
  LargeItemBins large(items, limits);
  large.add_a_medium_each();
  large.add_two_small_each();
  large.fill();
  std::vector<std::vector<Item>> bins = large.take_bins();
  const std::vector<Item> left = large.left();
  const PickedItems picked(items, left);
  for (const std::vector<Item>& positions : first_fit_decreasing(picked.items(), limits).to_vectors()) {
    std::vector<Item>& bin = bins.emplace_back();
    for (const Item position : positions) bin.push_back(left[static_cast<std::size_t>(position)]);
  }
  return Partition{bins};
}

}  // namespace evenkeel
