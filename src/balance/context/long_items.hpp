#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "balance/context/giants.hpp"
#include "balance/context/levels.hpp"

namespace evenkeel::context {

/// The least aligned tokens that an item has in any group.
class LeastTokens {
 public:
  explicit LeastTokens(const Levels& levels);
  [[nodiscard]] std::int64_t operator()(Item item) const;

 private:
  const Levels* levels_;
  bool is_least_on_one_ = true;  ///< no group aligns anything to less than a single rank does
};

/// The time of an item on its best group.
[[nodiscard]] Cost least_time(Item item, const Levels& levels);

/// All items that may have to be on other levels than the lowest, or leave no time for another such item;
/// level by level. What lower bounds know of them.
class LongItems {
 public:
  /// Of an item on a level.
  struct Place {
    Cost time = 0;    ///< alone; -1: it does not fit
    Cost pooled = 0;  ///< its communication less all that its attention hides, maybe below 0
    Cost alone = 0;   ///< what of it no company hides; 0 or more
    Cost wasted = 0;  ///< what faster ranks of its group would do meanwhile, at least
  };

  /// Those that take more than half of `at_least` on one rank, or do not fit there.
  LongItems(const Levels& levels, Cost at_least);

  [[nodiscard]] std::span<const Item> items() const noexcept { return items_; }
  /// Of the i-th of them, on all levels.
  [[nodiscard]] std::span<const Place> places(std::size_t i) const {
    const auto levels = static_cast<std::size_t>(levels_->count());
    return std::span(places_).subspan(i * levels, levels);
  }

  /// The largest ones, in number at most those that are searched through.
  [[nodiscard]] Giants giants() const;

  /// Work, exposed communication and waiting for slower ranks of all, if none may take longer than `limit`:
  /// exposed communication of groups from level `first_pooled` on counts in sum, that of smaller groups item
  /// by item.
  [[nodiscard]] Cost area(Cost limit, int first_pooled) const;

 private:
  [[nodiscard]] Place place(Item item, int level) const;
  void find_alone();
  void find_pools();

  const Levels* levels_;
  std::vector<Item> items_;
  std::vector<Item> short_items_;
  std::vector<Place> places_;  ///< of each item all levels
  std::vector<Cost> pools_;    ///< what short items can add to those from each level on: 0 or less
  bool has_work_without_rows_ = false;
};

}  // namespace evenkeel::context
