#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "balance/context/levels.hpp"
#include "balance/partition/least_loaded.hpp"

namespace evenkeel {

/// Which block of a level would end something first; on a tie the fastest, and of these the lowest. O(speeds
/// + log(blocks)) a change: of the blocks of one speed that is the one that is free first.
class FirstToEnd {
 public:
  /// Block b is free at free[b]. Precondition: there is one.
  FirstToEnd(const context::Levels& levels, int level, const std::vector<Cost>& free)
      : speeds_(&levels.speeds()) {
    std::map<std::int64_t, std::vector<std::int64_t>> by_speed;
    for (std::size_t b = 0; b < free.size(); ++b)
      by_speed[speeds_->slowest(level, b)].push_back(static_cast<std::int64_t>(b));
    for (auto& [speed, blocks] : by_speed) {
      std::vector<Cost> loads;
      for (const std::int64_t block : blocks) loads.push_back(free[static_cast<std::size_t>(block)]);
      classes_.push_back({speed, LeastLoaded(loads), std::move(blocks)});
    }
  }

  /// Of what takes `time` on the fastest ranks.
  [[nodiscard]] std::int64_t find(Cost time) {
    if (classes_.size() > 1) {
      const auto end = [&](const Class& blocks) {
        return std::tuple(blocks.least.least().load + speeds_->at_speed(time, blocks.speed), -blocks.speed,
                          blocks.first());
      };
      found_ = static_cast<std::size_t>(std::ranges::min_element(classes_, {}, end) - classes_.begin());
    }
    return classes_[found_].first();
  }

  /// The one found last is free then.
  void set_found(Cost free) { classes_[found_].least.set_least(free); }

 private:
  /// Blocks that are equally fast, ascending.
  struct Class {
    std::int64_t speed;
    LeastLoaded least;
    std::vector<std::int64_t> blocks;

    [[nodiscard]] std::int64_t first() const { return blocks[static_cast<std::size_t>(least.least().place)]; }
  };

  const context::Speeds* speeds_;
  std::vector<Class> classes_;
  std::size_t found_ = 0;
};

}  // namespace evenkeel
