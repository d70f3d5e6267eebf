#include "balance/partition/lpt.hpp"

#include <compare>
#include <utility>
#include <vector>

#include "balance/checks.hpp"
#include "balance/partition/item_order.hpp"
#include "evenkeel/base/assertions.hpp"

namespace evenkeel {

namespace {

/// The load of a group. The lightest group by (sum, count, number) gets the next item.
struct Load {
  Cost sum = 0;
  std::int64_t count = 0;
  std::int64_t number = 0;

  friend auto operator<=>(const Load&, const Load&) = default;
};

/// A binary min-heap that moves elements exactly like Python's heapq, which the reference implementation (see
/// longest_processing_time()) uses. The standard library's heap functions do not guarantee this. It matters
/// because open groups are returned in the order of the heap's array.
class LoadHeap {
 public:
  /// Makes k empty groups, numbered from 0.
  explicit LoadHeap(std::int64_t k) : loads_(static_cast<std::size_t>(k)) {
    for (std::size_t g = 0; g < loads_.size(); ++g) loads_[g].number = static_cast<std::int64_t>(g);
  }

  [[nodiscard]] const std::vector<Load>& loads() const noexcept { return loads_; }

  void push(Load load) {
    loads_.push_back(load);
    sift_up(loads_.size() - 1);
  }

  /// Removes and returns the lightest load. Precondition: the heap is not empty.
  Load pop() {
    EVENKEEL_PRECONDITION(cheap, !loads_.empty());
    const Load last = loads_.back();
    loads_.pop_back();
    if (loads_.empty()) return last;
    const Load smallest = std::exchange(loads_.front(), last);
    sift_up(sink_to_leaf());
    return smallest;
  }

 private:
  /// Moves the root down along the smaller children to a leaf. Returns its final position.
  std::size_t sink_to_leaf() {
    std::size_t at = 0;
    for (std::size_t child = 1; child < loads_.size(); child = 2 * at + 1) {
      if (child + 1 < loads_.size() && loads_[child + 1] < loads_[child]) ++child;
      std::swap(loads_[at], loads_[child]);
      at = child;
    }
    return at;
  }

  void sift_up(std::size_t at) {
    while (at > 0) {
      const std::size_t parent = (at - 1) / 2;
      if (loads_[parent] < loads_[at]) break;
      std::swap(loads_[at], loads_[parent]);
      at = parent;
    }
  }

  std::vector<Load> loads_;
};

/// Groups under construction: items by group number, open groups in a heap, and closed groups in the order in
/// which they were closed.
class PartitionBuilder {
 public:
  PartitionBuilder(std::int64_t k, std::size_t num_items)
      : open_(k), items_(static_cast<std::size_t>(k)), num_items_(num_items) {
    if (items_.empty()) return;
    for (std::vector<Item>& items : items_) items.reserve(num_items / items_.size() + 1);
  }

  /// Removes and returns the lightest group of the heap. Precondition: a group is open.
  Load take_lightest() { return open_.pop(); }

  Load start_group() {
    items_.emplace_back();
    return {0, 0, static_cast<std::int64_t>(items_.size()) - 1};
  }

  /// Adds an item to a group that was removed from the heap. The caller must then put the group back or close
  /// it.
  void add(Load& load, const CostedItem& entry) {
    items_[static_cast<std::size_t>(load.number)].push_back(entry.item);
    load.sum += entry.cost;
    ++load.count;
  }

  void return_to_heap(const Load& load) { open_.push(load); }
  void close(const Load& load) { closed_.push_back(load.number); }

  /// Returns the closed groups in the order in which they were closed, then the open groups in the order of
  /// the heap.
  [[nodiscard]] Partition result() const {
    std::vector<Item> all;
    all.reserve(num_items_);
    std::vector<std::int64_t> offsets{0};
    offsets.reserve(items_.size() + 1);
    const auto append = [&](std::int64_t number) {
      const std::vector<Item>& items = items_[static_cast<std::size_t>(number)];
      all.insert(all.end(), items.begin(), items.end());
      offsets.push_back(static_cast<std::int64_t>(all.size()));
    };
    for (const std::int64_t number : closed_) append(number);
    for (const Load& load : open_.loads()) append(load.number);
    return {std::move(all), std::move(offsets)};
  }

 private:
  LoadHeap open_;
  std::vector<std::vector<Item>> items_;
  std::size_t num_items_;
  std::vector<std::int64_t> closed_;
};

Partition lpt_with_free_counts(std::span<const Cost> costs, std::int64_t k) {
  PartitionBuilder groups(k, costs.size());
  for (const CostedItem& entry : descending_items(costs)) {
    Load lightest = groups.take_lightest();
    groups.add(lightest, entry);
    groups.return_to_heap(lightest);
  }
  return groups.result();
}

/// Partitions with equal counts: each group takes n / k items, rounded down. The first n mod k groups that
/// are chosen again after that take one more item.
Partition lpt_with_equal_counts(std::span<const Cost> costs, std::int64_t k) {
  const auto n = static_cast<std::int64_t>(costs.size());
  const std::int64_t quota = n / k;
  std::int64_t extra = n % k;
  PartitionBuilder groups(k, costs.size());
  const auto is_full = [&](const Load& load) {
    return load.count > quota || (load.count == quota && extra == 0);
  };
  for (const CostedItem& entry : descending_items(costs)) {
    Load lightest = groups.take_lightest();
    while (is_full(lightest)) {  // another group took the last extra item
      groups.close(lightest);
      lightest = groups.take_lightest();
    }
    groups.add(lightest, entry);
    if (lightest.count > quota) --extra;
    is_full(lightest) ? groups.close(lightest) : groups.return_to_heap(lightest);
  }
  return groups.result();
}

}  // namespace

Partition longest_processing_time(std::span<const Cost> costs, std::int64_t k, GroupSize group_size) {
  balance_checks::require_valid_num_groups(k);
  balance_checks::checked_sum(costs, "costs");
  return group_size == GroupSize::equal ? lpt_with_equal_counts(costs, k) : lpt_with_free_counts(costs, k);
}

Partition longest_processing_time_with_cap(std::span<const Cost> costs, std::int64_t k, Cost cap) {
  if (k != 0 || !costs.empty()) balance_checks::require_valid_num_groups(k);
  balance_checks::checked_sum(costs, "costs");
  PartitionBuilder groups(k, costs.size());
  for (const CostedItem& entry : descending_items(costs)) {
    Load lightest = groups.take_lightest();
    if (lightest.sum + entry.cost > cap) {
      groups.close(lightest);
      lightest = groups.start_group();
    }
    groups.add(lightest, entry);
    groups.return_to_heap(lightest);
  }
  return groups.result();
}

}  // namespace evenkeel
