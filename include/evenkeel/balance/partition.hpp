#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/base/assertions.hpp"
#include "evenkeel/cost/cost_model.hpp"

namespace evenkeel {

/// An item's position in the list of costs.
using Item = std::int64_t;

/// Items 0..n-1 in k groups. A value type in compressed form: one array of items and k+1 offsets. The order
/// of groups and of items inside a group is part of the value; the algorithm's documentation defines it.
///
/// Example: groups {2, 0}, {} and {1} are items {2, 0, 1} with offsets {0, 2, 2, 3}.
class Partition {
 public:
  Partition() = default;
  /// `offsets` has k+1 entries, from 0 to items.size(), never decreasing. Throws InputError otherwise.
  Partition(std::vector<Item> items, std::vector<std::int64_t> offsets);
  explicit Partition(std::span<const std::vector<Item>> groups);

  /// Returns k.
  [[nodiscard]] std::int64_t size() const noexcept { return static_cast<std::int64_t>(offsets_.size()) - 1; }
  [[nodiscard]] std::int64_t num_items() const noexcept { return static_cast<std::int64_t>(items_.size()); }
  /// Returns the items of group `g`, in order. Precondition: 0 <= g < size().
  [[nodiscard]] std::span<const Item> operator[](std::int64_t g) const noexcept {
    EVENKEEL_PRECONDITION(cheap, 0 <= g && g < size(), g, size());
    const auto at = static_cast<std::size_t>(g);
    return std::span(items_).subspan(static_cast<std::size_t>(offsets_[at]),
                                     static_cast<std::size_t>(offsets_[at + 1] - offsets_[at]));
  }
  /// Returns all items, group after group.
  [[nodiscard]] std::span<const Item> items() const noexcept { return items_; }

  /// Returns the same groups in the same order, each with its items in ascending order. O(n) for items
  /// 0..n-1, otherwise O(n log n).
  [[nodiscard]] Partition with_sorted_items() const;
  [[nodiscard]] std::vector<std::vector<Item>> to_vectors() const;

  friend bool operator==(const Partition&, const Partition&) = default;

  template <class Archive>
  void serialize(Archive& archive, unsigned /*version*/) {
    archive& items_;
    archive& offsets_;
  }

 private:
  std::vector<Item> items_;
  std::vector<std::int64_t> offsets_{0};
};

/// Returns the sum of `costs` over each group, k entries.
[[nodiscard]] std::vector<Cost> group_sums(const Partition& partition, std::span<const Cost> costs);

/// Constraint on the number of items per group.
enum class GroupSize : std::uint8_t {
  free,   ///< no constraint: whatever balances best
  equal,  ///< n/k, rounded down or up, so counts differ by at most one
};

}  // namespace evenkeel
