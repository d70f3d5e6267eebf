#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/plan/batch_schedule.hpp"

namespace evenkeel {

/// What a BatchSchedule draws from its sources, whose header has the rule. A pure function of its arguments:
/// nothing depends on when it was asked for what.
class Blend {
 public:
  /// Precondition: sources have samples, epochs and weights of 1 or more.
  Blend(std::vector<ScheduledSource> parts, bool shuffle, std::uint64_t seed);

  /// All draws of one round: every part's epochs.
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  /// Draws [first, first + out.size()) of a round, as positions in the parts' lists one behind the other.
  /// Rounds are alike but for their shuffles. O(out) where draws are asked for in order, or there is one part
  /// (O(log parts) each); O(first) where they are not, O(samples) for a new epoch's shuffle.
  void draw(std::int64_t round, std::int64_t first, std::span<std::int64_t> out);

 private:
  struct State {
    std::int64_t drawn = 0;  // samples of this part in this round
    std::int64_t sizes = 0;  // what they count for
    std::int64_t next = 0;   // the position of the sample that is next, in the part
    std::int64_t next_size = 0;
  };

  void begin(std::int64_t round);
  void prepare_next(std::size_t part);
  [[nodiscard]] std::int64_t position(std::size_t part, std::int64_t draw);
  [[nodiscard]] bool comes_later(std::size_t a, std::size_t b) const noexcept;
  [[nodiscard]] std::int64_t take();
  void draw_of_single_part(std::int64_t round, std::int64_t first, std::span<std::int64_t> out);

  std::vector<ScheduledSource> parts_;
  std::vector<std::int64_t> offsets_;  // of each part in the joint list
  bool shuffle_;
  std::uint64_t seed_;
  std::int64_t size_ = 0;

  std::int64_t round_ = -1;  // that the states are of
  std::int64_t taken_ = 0;   // draws of it
  std::vector<State> states_;
  std::vector<std::size_t> heap_;  // parts that have not run out, the next one on top

  struct Order {
    std::int64_t epoch = -1;
    std::vector<std::int64_t> positions;
  };
  std::vector<Order> orders_;  // of each part's latest epoch, where there is a shuffle
};

}  // namespace evenkeel
