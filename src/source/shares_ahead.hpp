#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "evenkeel/plan/batch_schedule.hpp"

namespace evenkeel {

/// A rank's shares of a schedule's steps, and their samples asked for before they are read.
///
/// The share of the next step is asked for as it is. Where `window` is more than that, samples of many steps
/// to come are asked for too, in the order of the files, so that those that lie near each other are one
/// request to the disk. While the steps of one window are read, the next is asked for, an equal part with
/// each step; windows begin small and double. Ranks of a node have one cache of files, so that a window is of
/// all their samples, and each rank asks for those of its own part of the files.
class SharesAhead {
 public:
  struct Reader {
    int rank = 0;
    int num_ranks = 1;
    std::vector<int> of_node{0};  ///< the ranks that share a cache of files, this one too; ascending
  };
  /// Says that entries will be read soon.
  using Expect = std::function<void(std::span<const std::int64_t>)>;

  /// `entries`: those of the schedule are below it. The schedule must live as long as this. Precondition: the
  /// ranks of the node are as said above.
  SharesAhead(BatchSchedule& schedule, std::int64_t entries, Reader reader, std::int64_t window,
              Expect expect);

  /// The entries of this rank's share of a step. Fastest in the order of steps.
  [[nodiscard]] std::vector<std::int64_t> take(std::int64_t step);

 private:
  [[nodiscard]] std::int64_t drawn_until() const noexcept { return first_ + std::ssize(shares_); }
  void draw_until(std::int64_t step);
  void collect_until(std::int64_t step);
  void ask_for_window(std::int64_t step);

  BatchSchedule& schedule_;
  std::int64_t entries_;
  Reader reader_;
  std::int64_t window_;
  Expect expect_;
  std::int64_t first_ = 0;                        // the step of the first of shares_
  std::deque<std::vector<std::int64_t>> shares_;  // drawn in the order of steps, and not taken yet
  std::int64_t window_end_ = 0;                   // of the window that is being read
  std::vector<std::int64_t> asked_;               // of the window behind it, in order
  std::size_t num_asked_ = 0;
};

}  // namespace evenkeel
