#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/plan/batch_schedule.hpp"

namespace evenkeel {

/// Draws the samples of a BatchSchedule from its sources, the parts, by the rule described at BatchSchedule.
/// Each draw is a pure function of the arguments and does not depend on earlier calls.
class Blend {
 public:
  /// Precondition: the samples, epochs and weight of each source are at least 1.
  Blend(std::vector<ScheduledSource> parts, bool shuffle, std::uint64_t seed);

  /// Returns the number of draws in one round. A round covers all epochs of every part.
  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  /// Writes draws [first, first + out.size()) of a round to `out`, as positions in the concatenated lists of
  /// the parts. Rounds differ only in how the samples are shuffled. O(out) for one part; for several, O(out *
  /// log parts) if draws are requested in order, and O((first + out) * log parts) otherwise; plus O(samples)
  /// for shuffling a new epoch.
  void draw(std::int64_t round, std::int64_t first, std::span<std::int64_t> out);

 private:
  struct State {
    std::int64_t drawn = 0;  // number of samples drawn from this part in this round
    std::int64_t sizes = 0;  // sum of the drawn samples' sizes
    std::int64_t next = 0;   // position of the next sample in the concatenated lists
    std::int64_t next_size = 0;
  };

  void begin_round(std::int64_t round);
  void prepare_next(std::size_t part);
  [[nodiscard]] std::int64_t position(std::size_t part, std::int64_t draw);
  [[nodiscard]] bool is_drawn_later(std::size_t a, std::size_t b) const noexcept;
  [[nodiscard]] std::int64_t draw_next();
  void draw_from_single_part(std::int64_t round, std::int64_t first, std::span<std::int64_t> out);

  std::vector<ScheduledSource> parts_;
  std::vector<std::int64_t> offsets_;  // by part: its offset in the concatenated lists
  bool shuffle_;
  std::uint64_t seed_;
  std::int64_t size_ = 0;

  std::int64_t round_ = -1;  // round described by `states_`
  std::int64_t taken_ = 0;   // number of draws taken in round `round_`
  std::vector<State> states_;
  // Parts with remaining samples, as a heap; the next one to draw from is on top.
  std::vector<std::size_t> heap_;

  struct Order {
    std::int64_t epoch = -1;
    std::vector<std::int64_t> positions;
  };
  std::vector<Order> orders_;  // by part: the shuffled order of its latest epoch
};

}  // namespace evenkeel
