#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "balance/context/schedule.hpp"
#include "balance/context/speeds.hpp"

namespace evenkeel::context {

/// Sizes that groups of a problem may have, ascending, and what its items are on each. A level is a place in
/// that list. Views the problem, which must outlive it and have passed require_fits.
class Levels {
 public:
  explicit Levels(const Problem& problem);

  [[nodiscard]] const Problem& problem() const noexcept { return *problem_; }
  [[nodiscard]] int count() const noexcept { return static_cast<int>(sizes_.size()); }
  [[nodiscard]] std::int64_t num_items() const noexcept {
    return static_cast<std::int64_t>(problem_->items.size());
  }
  [[nodiscard]] std::int64_t size(int level) const noexcept {
    return sizes_[static_cast<std::size_t>(level)];
  }
  /// Aligned tokens that a micro-batch may hold.
  [[nodiscard]] std::int64_t cap(int level) const noexcept { return caps_[static_cast<std::size_t>(level)]; }
  /// Blocks of that size, side by side from rank 0.
  [[nodiscard]] std::int64_t blocks(int level) const noexcept { return problem_->ranks / size(level); }

  [[nodiscard]] const ContextWork& work(Item item) const noexcept {
    return problem_->items[static_cast<std::size_t>(item)];
  }
  [[nodiscard]] std::int64_t aligned(Item item, int level) const {
    return level == 0 ? tokens_[static_cast<std::size_t>(item)] : problem_->aligned_size(item, size(level));
  }
  [[nodiscard]] bool fits(Item item, int level) const { return aligned(item, level) <= cap(level); }
  /// The lowest level on which the item fits.
  [[nodiscard]] int lowest(Item item) const noexcept { return lowest_[static_cast<std::size_t>(item)]; }

  [[nodiscard]] const Speeds& speeds() const noexcept { return speeds_; }
  /// Were all ranks as fast as the fastest.
  [[nodiscard]] Cost fastest_time(const ContextWork& work, int level) const noexcept {
    return time_on(work, size(level), problem_->communication);
  }
  /// On the fastest group of the level.
  [[nodiscard]] Cost time(const ContextWork& work, int level) const noexcept {
    return speeds_.at_best(fastest_time(work, level), level);
  }
  [[nodiscard]] Cost time_on_block(const ContextWork& work, int level, std::size_t block) const noexcept {
    return speeds_.on_block(fastest_time(work, level), level, block);
  }
  /// On the block that begins with rank `first`.
  [[nodiscard]] Cost time_at(const ContextWork& work, int level, std::int64_t first) const noexcept {
    const Cost time = fastest_time(work, level);
    return speeds_.differ() ? speeds_.on_block(time, level, static_cast<std::size_t>(first / size(level)))
                            : time;
  }
  /// The most that it could take on the fastest ranks to end there within `time`.
  [[nodiscard]] Cost fastest_time_within(Cost time, int level, std::int64_t first) const noexcept {
    return speeds_.differ() ? speeds_.fast_time(time, level, static_cast<std::size_t>(first / size(level)))
                            : time;
  }
  /// Of the item alone on the fastest group.
  [[nodiscard]] Cost time(Item item, int level) const noexcept { return time(work(item), level); }
  /// What the item alone takes of all ranks together.
  [[nodiscard]] Cost area(Item item, int level) const noexcept {
    return work(item).work + exposed_communication(work(item), size(level), problem_->communication) +
           problem_->communication.overhead * size(level);
  }

  /// Where the item alone takes the least of all ranks together within `limit`; the lower level on a tie.
  /// Where it takes longer on every level: where it takes least time.
  [[nodiscard]] int cheapest_within(Item item, Cost limit) const;

 private:
  const Problem* problem_;
  std::vector<std::int64_t> sizes_;
  std::vector<std::int64_t> caps_;
  std::vector<std::int64_t> tokens_;  ///< aligned on the lowest level
  std::vector<std::uint8_t> lowest_;
  Speeds speeds_;
};

/// All items by falling work, of equal work the first first.
[[nodiscard]] std::vector<Item> by_falling_work(const Levels& levels);

/// lower_bound of the problem, which has items.
[[nodiscard]] Cost lower_bound_on(const Levels& levels);

/// Sizes that groups may have: powers of two up to `max_size`, ascending.
[[nodiscard]] std::vector<std::int64_t> sizes_of_groups(std::int64_t max_size);

/// `size` times max_size of the limits, as far as numbers go.
[[nodiscard]] std::int64_t cap_of(const BinLimits& limits, std::int64_t size);

}  // namespace evenkeel::context
