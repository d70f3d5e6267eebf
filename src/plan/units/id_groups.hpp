#pragma once

#include <algorithm>
#include <cstdint>
#include <ranges>
#include <span>
#include <utility>
#include <vector>

#include "base/id_range.hpp"
#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// View of balancing items as ids: item i becomes the id with value i.
template <typename I>
using IdView = std::ranges::transform_view<std::span<const Item>, MakeId<I>>;

template <typename I>
[[nodiscard]] std::vector<I> to_vector(IdView<I> ids) {
  std::vector<I> list(ids.size());
  std::ranges::copy(ids, list.begin());
  return list;
}

/// Groups of ids of one type, such as the units of each DP rank. Converts between ids and the items of
/// `balance` without copying: item i of a Partition becomes the id with value i, and vice versa. A value
/// type.
template <typename I>
class IdGroups {
 public:
  IdGroups() = default;
  /// Converts the items of a partition to ids.
  explicit IdGroups(Partition items) : items_(std::move(items)) {}
  explicit IdGroups(std::span<const std::vector<I>> groups) {
    std::vector<std::int64_t> offsets{0};
    offsets.reserve(groups.size() + 1);
    for (const std::vector<I>& group : groups) offsets.push_back(offsets.back() + std::ssize(group));
    std::vector<Item> items;
    items.reserve(static_cast<std::size_t>(offsets.back()));
    for (const std::vector<I>& group : groups) {
      for (const I id : group) items.push_back(id.value());
    }
    items_ = Partition(std::move(items), std::move(offsets));
  }

  [[nodiscard]] std::int64_t size() const noexcept { return items_.size(); }
  /// Returns the ids of group `g` in order. The view is valid as long as the groups are. Precondition: 0 <= g
  /// < size().
  [[nodiscard]] IdView<I> operator[](std::int64_t g) const noexcept { return {items_[g], {}}; }
  /// Returns the groups as a partition of items, for balancing.
  [[nodiscard]] const Partition& items() const noexcept { return items_; }
  /// Returns all ids, ordered by group. The view is valid as long as the groups are.
  [[nodiscard]] IdView<I> ids() const noexcept { return {items_.items(), {}}; }

  friend bool operator==(const IdGroups&, const IdGroups&) = default;

 private:
  Partition items_;
};

}  // namespace evenkeel
