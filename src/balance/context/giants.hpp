#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "balance/context/levels.hpp"

namespace evenkeel::context {

/// The few largest items of a problem. If groups for these items are badly chosen, too few ranks remain for
/// the other items. A lower bound that sums the work over all ranks cannot detect this, so a search decides
/// whether any choice of groups works.
class Giants {
 public:
  /// The time and area of an item on groups of one level.
  struct Place {
    Cost time = -1;  ///< time of the item alone; -1 if it does not fit
    /// Sum of the item's work, its communication that cannot be hidden, and the work that ranks of the group
    /// could do while they wait for slower ranks. Does not include overheads.
    Cost area = 0;
  };
  /// Maximum number of items that add() accepts.
  static constexpr std::size_t most = 5;

  explicit Giants(const Levels& levels) : levels_(&levels) {}

  /// Adds an item with its times and areas on every level. Precondition: fewer than `most` items were added
  /// before.
  void add(std::span<const Place> places) { giants_.emplace_back(places.begin(), places.end()); }

  /// Returns whether a level and a block can be chosen for each item such that
  /// - each item alone takes at most `limit`,
  /// - each rank is busy with these items for at most `busy`, and
  /// - the areas of all items add up to at most `area`.
  ///
  /// Also returns true if the search would take too long.
  [[nodiscard]] bool can_fit(Cost limit, Cost busy, Cost area) const;

  /// Returns the minimum total area of the items with indices >= `from`, on levels on which each item alone
  /// takes at most `limit`.
  [[nodiscard]] Cost min_area(std::size_t from, Cost limit) const;

 private:
  /// Blocks of a level whose ranks are all busy for the same time.
  struct Run {
    Cost height = 0;
    std::int64_t blocks = 0;
  };

  bool can_choose_levels(std::vector<int>& chosen, Cost limit, Cost busy, Cost area,
                         std::int64_t& steps) const;
  [[nodiscard]] bool can_place_in_blocks(const std::vector<int>& chosen, Cost busy,
                                         std::int64_t& steps) const;
  bool can_place_in_runs(std::span<const std::size_t> order, const std::vector<int>& chosen, int level,
                         const std::vector<Run>& runs, Cost busy, std::int64_t& steps) const;
  [[nodiscard]] std::vector<Run> split_to_level(const std::vector<Run>& runs, int from, int level) const;

  const Levels* levels_;
  std::vector<std::vector<Place>> giants_;
};

}  // namespace evenkeel::context
