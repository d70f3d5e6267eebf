#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "balance/context/levels.hpp"

namespace evenkeel::context {

/// The few largest items of a problem, which are so large that not every choice of their groups leaves them
/// ranks: whether any does is searched for. Which is what a sum over all ranks does not see.
class Giants {
 public:
  /// Of an item on a level.
  struct Place {
    Cost time = -1;  ///< alone; -1: it does not fit
    /// Work, communication that nothing can hide, and waiting for slower ranks; without overhead.
    Cost area = 0;
  };
  /// So many are searched through at most.
  static constexpr std::size_t most = 5;

  explicit Giants(const Levels& levels) : levels_(&levels) {}

  /// One more, with its place on every level. Precondition: there are less than `most`.
  void add(std::span<const Place> places) { giants_.emplace_back(places.begin(), places.end()); }

  /// Whether each can have a level and a block of it such that none takes longer than `limit` alone, no rank
  /// is busy with them for longer than `busy`, and all together take no more than `area`. Also returns
  /// true if the search would take too long.
  [[nodiscard]] bool fit(Cost limit, Cost busy, Cost area) const;

  /// The least that those from `from` on can take together, each within `limit` alone.
  [[nodiscard]] Cost least_area(std::size_t from, Cost limit) const;

 private:
  /// Blocks of a level side by side in which all ranks are busy alike.
  struct Run {
    Cost height = 0;
    std::int64_t blocks = 0;
  };

  bool choose(std::vector<int>& chosen, Cost limit, Cost busy, Cost area, std::int64_t& steps) const;
  [[nodiscard]] bool have_blocks(const std::vector<int>& chosen, Cost busy, std::int64_t& steps) const;
  bool place(std::span<const std::size_t> order, const std::vector<int>& chosen, int level,
             const std::vector<Run>& runs, Cost busy, std::int64_t& steps) const;
  [[nodiscard]] std::vector<Run> on_level(const std::vector<Run>& runs, int from, int level) const;

  const Levels* levels_;
  std::vector<std::vector<Place>> giants_;
};

}  // namespace evenkeel::context
