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
  /// Whether no group size can give an item fewer aligned tokens than a single rank.
  bool is_least_on_one_ = true;
};

/// Returns the minimum time of an item, alone in a micro-batch, over all group sizes on which it fits.
[[nodiscard]] Cost min_time(Item item, const Levels& levels);

/// The long items of a problem, and their quantities on each level (Levels), for lower_bound(). An item is
/// long if it does not fit on one rank, or if it takes more than half of `at_least` on one rank, so that no
/// rank could run two such items within that time.
class LongItems {
 public:
  /// Time, communication and wasted work of an item if it runs on a group of one level.
  struct Place {
    Cost time = 0;  ///< time of the item alone; -1 if it does not fit
    /// The item's communication minus the amount that its own attention hides; may be negative.
    Cost pooled = 0;
    Cost alone = 0;   ///< the part of the item's communication that other items cannot hide; non-negative
    Cost wasted = 0;  ///< lower bound on the work that faster ranks of the group could do while they wait
  };

  /// `at_least` is a known lower bound on the time in which the ranks can do all work.
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
  /// `first_pooled` is pooled: the attention of any item may hide the communication of any other.
  /// Communication of smaller groups is counted per item.
  [[nodiscard]] Cost min_extra_area(Cost limit, int first_pooled) const;

 private:
  [[nodiscard]] Place make_place(Item item, int level) const;
  void compute_alone_communication();
  void compute_pools();

  const Levels* levels_;
  std::vector<Item> items_;
  std::vector<Item> short_items_;
  std::vector<Place> places_;  ///< ordered by item, then by level
  /// By `first_pooled` of min_extra_area(): the amount that short items add to the pooled communication. At
  /// most 0.
  std::vector<Cost> pools_;
  bool has_work_without_rows_ = false;
};

}  // namespace evenkeel::context
