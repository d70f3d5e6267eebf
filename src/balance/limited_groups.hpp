#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "evenkeel/balance/bin_packing.hpp"
#include "evenkeel/balance/partition.hpp"
#include "item_order.hpp"

namespace evenkeel {

/// Groups that keep limits on sizes, made more even on costs step by step. Every step keeps the limits.
class LimitedGroups {
 public:
  /// Precondition: `start` keeps `limits`. The spans must outlive this object.
  LimitedGroups(const Partition& start, std::span<const Cost> costs, std::span<const std::int64_t> sizes,
                BinLimits limits);

  /// Halves the costliest group of two items or more until there are k groups, then adds empty ones.
  void split_to(std::int64_t k);

  /// Moves an item from the costliest group to a cheaper one, or swaps two, as long as that makes the larger
  /// of the two smaller; the cheapest groups are tried first. The work is bounded by a multiple of n.
  void even_out();

  /// Groups by falling (cost, count, first item), their items ascending.
  [[nodiscard]] Partition result() const;

 private:
  struct Group {
    Cost cost = 0;
    std::int64_t size = 0;
    std::vector<CostedItem> items;  ///< ascending
  };

  /// `given` leaves the heavier group; `taken`, if any, comes back for it.
  struct Exchange {
    CostedItem given;
    std::optional<CostedItem> taken;
    Cost distance = 0;  ///< twice how far the two groups stay from meeting in the middle
  };

  [[nodiscard]] std::int64_t size_of(const CostedItem& entry) const {
    return sizes_[static_cast<std::size_t>(entry.item)];
  }
  [[nodiscard]] bool allows(const Group& heavy, const Group& light, const CostedItem& given,
                            const std::optional<CostedItem>& taken) const;
  [[nodiscard]] std::optional<Exchange> best_exchange(const Group& heavy, const Group& light) const;
  void consider(const Group& heavy, const Group& light, const CostedItem& given,
                std::optional<Exchange>& best) const;
  bool improve_costliest(std::int64_t& budget);
  void transfer(Group& from, Group& to, const CostedItem& entry) const;
  void apply(std::size_t heavy, std::size_t light, const Exchange& exchange);

  std::span<const std::int64_t> sizes_;
  BinLimits limits_;
  std::vector<Group> groups_;
  std::set<std::pair<Cost, std::size_t>> by_cost_;  ///< every group, while even_out() runs
};

}  // namespace evenkeel
