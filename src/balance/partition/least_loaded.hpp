#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "balance/context/levels.hpp"
#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// Finds the least loaded of several places; on a tie, the one with the lowest number. Uses a heap, so a
/// change costs O(log(places)).
class LeastLoaded {
 public:
  struct Place {
    Cost load = 0;
    std::int64_t place = 0;

    friend auto operator<=>(const Place&, const Place&) = default;
  };

  /// Sets the load of place p to loads[p]. Precondition: loads is not empty.
  explicit LeastLoaded(const std::vector<Cost>& loads) : heap_(loads.size()) {
    for (std::size_t p = 0; p < loads.size(); ++p) heap_[p] = {loads[p], static_cast<std::int64_t>(p)};
    for (std::size_t at = heap_.size() / 2; at-- > 0;) sift_down(at);
  }

  [[nodiscard]] const Place& least_loaded_place() const noexcept { return heap_.front(); }

  /// Changes the load of the least loaded place.
  void set_least_load(Cost load) {
    heap_.front().load = load;
    sift_down(0);
  }

 private:
  void sift_down(std::size_t at) {
    const Place moved = heap_[at];
    for (;;) {
      std::size_t child = 2 * at + 1;
      if (child >= heap_.size()) break;
      if (child + 1 < heap_.size() && heap_[child + 1] < heap_[child]) ++child;
      if (!(heap_[child] < moved)) break;
      heap_[at] = heap_[child];
      at = child;
    }
    heap_[at] = moved;
  }

  std::vector<Place> heap_;
};

/// Finds the block of a level on which a task would end first; on a tie, the fastest block, then the
/// lowest-numbered one. Among blocks of equal speed, this is the block that is free first. O(distinct speeds)
/// per search, and O(log(blocks)) per change.
class EarliestFinish {
 public:
  /// Block b is free from time free[b] on. Precondition: free is not empty.
  EarliestFinish(const context::Levels& levels, int level, const std::vector<Cost>& free)
      : speeds_(&levels.speeds()) {
    std::map<std::int64_t, std::vector<std::int64_t>> by_speed;
    for (std::size_t b = 0; b < free.size(); ++b)
      by_speed[speeds_->slowest_speed(level, b)].push_back(static_cast<std::int64_t>(b));
    for (auto& [speed, blocks] : by_speed) {
      std::vector<Cost> loads;
      for (const std::int64_t block : blocks) loads.push_back(free[static_cast<std::size_t>(block)]);
      classes_.push_back({speed, LeastLoaded(loads), std::move(blocks)});
    }
  }

  /// Returns the block on which a task that takes `time` on the fastest ranks would end first.
  [[nodiscard]] std::int64_t find(Cost time) {
    if (classes_.size() > 1) {
      const auto end = [&](const SpeedClass& blocks) {
        return std::tuple(blocks.least.least_loaded_place().load + speeds_->time_at_speed(time, blocks.speed),
                          -blocks.speed, blocks.least_loaded_block());
      };
      found_ = static_cast<std::size_t>(std::ranges::min_element(classes_, {}, end) - classes_.begin());
    }
    return classes_[found_].least_loaded_block();
  }

  /// Sets the time from which the block that find() last returned is free.
  void set_load_of_found(Cost free) { classes_[found_].least.set_least_load(free); }

 private:
  /// The blocks of one speed, in ascending order of their numbers.
  struct SpeedClass {
    std::int64_t speed;
    LeastLoaded least;
    std::vector<std::int64_t> blocks;

    [[nodiscard]] std::int64_t least_loaded_block() const {
      return blocks[static_cast<std::size_t>(least.least_loaded_place().place)];
    }
  };

  const context::Speeds* speeds_;
  std::vector<SpeedClass> classes_;
  std::size_t found_ = 0;
};

}  // namespace evenkeel
