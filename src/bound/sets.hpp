#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "balance/context/levels.hpp"

namespace evenkeel::context {

/// A few of the largest items of a problem: which of them one wave can hold together, and how high it is
/// then. A set of them is a number in which the bit of each of its items is set.
class WaveSets {
 public:
  /// Of an item on a level.
  struct Place {
    Cost time = -1;           ///< alone; -1: it does not fit
    Cost area = 0;            ///< work and communication that no company can hide; without overhead
    std::int64_t tokens = 0;  ///< aligned
  };
  /// So many items at most.
  static constexpr std::size_t most = 8;

  explicit WaveSets(const Levels& levels) : levels_(&levels) {}

  /// One more, with its place on every level. Precondition: there are less than `most`.
  void add(std::vector<Place> places) { items_.push_back(std::move(places)); }

  /// Of every set: no lower wave holds its items. Up to 1 / 2048 less than could be said, more so where there
  /// are too many ways to look at, and not above `highest` but for items that alone take longer.
  [[nodiscard]] std::vector<Cost> least_heights(Cost highest) const;

 private:
  /// Ranks that run some of the items together.
  struct Group {
    std::size_t level = 0;
    Cost area = 0;
    std::int64_t tokens = 0;
  };
  /// Groups of a wave that hold the first items of a set.
  struct Wave {
    Cost height = 0;
    std::int64_t free = 0;  ///< ranks
    std::vector<Group> groups;
    std::int64_t places_left = 0;  ///< that may still be tried
  };

  [[nodiscard]] Cost least_height(std::size_t set, Cost least, Cost highest) const;
  [[nodiscard]] bool fits(std::size_t set, Cost height) const;
  bool place_from(std::size_t item, std::size_t set, Wave& wave) const;
  bool join_groups(std::size_t item, std::size_t set, Wave& wave) const;
  bool open_groups(std::size_t item, std::size_t set, Wave& wave) const;

  const Levels* levels_;
  std::vector<std::vector<Place>> items_;
};

/// The least sum of what sets cost over all ways to share all items out among sets, where costs[set] is what
/// a set costs. (Dynamic programming over sets.) 3 to the power of the number of items, in steps.
[[nodiscard]] Cost cheapest_sharing_out(const std::vector<Cost>& costs);

}  // namespace evenkeel::context
