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

/// Items of balancing, seen in place as the ids that they stand for.
template <typename I>
using IdView = std::ranges::transform_view<std::span<const Item>, MakeId<I>>;

template <typename I>
[[nodiscard]] std::vector<I> list_of(IdView<I> ids) {
  std::vector<I> list(ids.size());
  std::ranges::copy(ids, list.begin());
  return list;
}

/// Groups of ids of one kind, such as what each DP rank gets. The border to `balance`, which knows nothing
/// but items: where the list that it was handed had id i at position i, its partition becomes groups of ids,
/// and they a partition, without a copy. A value type.
template <typename I>
class IdGroups {
 public:
  IdGroups() = default;
  /// The items of a partition as ids.
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
  /// The ids of group `g`, in order; valid as long as the groups are. Precondition: 0 <= g < size().
  [[nodiscard]] IdView<I> operator[](std::int64_t g) const noexcept { return {items_[g], {}}; }
  /// The ids as items, for balancing.
  [[nodiscard]] const Partition& items() const noexcept { return items_; }
  /// All ids, group after group; valid as long as the groups are.
  [[nodiscard]] IdView<I> ids() const noexcept { return {items_.items(), {}}; }

  friend bool operator==(const IdGroups&, const IdGroups&) = default;

 private:
  Partition items_;
};

}  // namespace evenkeel
