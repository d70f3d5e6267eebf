#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "balance/context/giants.hpp"
#include "balance/context/levels.hpp"

namespace evenkeel::context {

/// Computes the minimum number of aligned tokens of an item over all group sizes.
class LeastTokens {
 public:
  explicit LeastTokens(const Levels& levels);
  [[nodiscard]] std::int64_t operator()(Item item) const;

 private:
  const Levels* levels_;
  bool is_least_on_one_ = true;  ///< whether a single rank always has the minimum
};

/// Returns the time of an item on its best group.
[[nodiscard]] Cost least_time(Item item, const Levels& levels);

/// The long items of a problem, with the quantities per level that lower bounds use. An item is long if it
/// does not fit on one rank, or if it takes more than half of a known lower bound there, so that no rank
/// could run two such items within that bound.
class LongItems {
 public:
  /// Quantities of an item on a level.
  struct Place {
    Cost time = 0;    ///< time of the item alone; -1 if it does not fit
    Cost pooled = 0;  ///< its communication minus the amount that its attention hides; may be negative
    Cost alone = 0;   ///< the part of its communication that other items cannot hide; non-negative
    Cost wasted = 0;  ///< lower bound on the work that faster ranks of its group could do while they wait
  };

  /// `at_least` is the known lower bound.
  LongItems(const Levels& levels, Cost at_least);

  [[nodiscard]] std::span<const Item> items() const noexcept { return items_; }
  /// Returns the quantities of the i-th long item on all levels.
  [[nodiscard]] std::span<const Place> places(std::size_t i) const {
    const auto levels = static_cast<std::size_t>(levels_->count());
    return std::span(places_).subspan(i * levels, levels);
  }

  /// Returns the long items with the most work, at most Giants::most of them.
  [[nodiscard]] Giants giants() const;

  /// Returns a lower bound on the exposed communication of all items, plus the work that faster ranks could
  /// do while they wait, if each item may take at most `limit`. Communication of groups at or above level
  /// `first_pooled` is pooled over all items; communication of smaller groups is counted per item.
  [[nodiscard]] Cost area(Cost limit, int first_pooled) const;

 private:
  [[nodiscard]] Place place(Item item, int level) const;
  void find_exclusive_places();
  void find_pooled_places();

  const Levels* levels_;
  std::vector<Item> items_;
  std::vector<Item> short_items_;
  std::vector<Place> places_;  ///< ordered by item, then by level
  std::vector<Cost>
      pools_;  ///< by first pooled level: amount that short items add to the pooled communication; at most 0
  bool has_work_without_rows_ = false;
};

}  // namespace evenkeel::context
