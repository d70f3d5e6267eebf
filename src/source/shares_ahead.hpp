#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "evenkeel/plan/batch_schedule.hpp"

namespace evenkeel {

/// Gets a rank's shares of steps from a schedule, and prefetches their samples in advance. A share is a list
/// of entries, each of which is a sample or a piece of a sample.
///
/// When a step is taken, the share of the next step is always prefetched. If `window` is above 1, samples of
/// many later steps are also prefetched, in the order of the files, so samples that are close to each other
/// are read with one disk request. While the steps of one window are read, the next window is prefetched in
/// equal parts, one with each step. Windows start small and double up to `window` steps. The ranks of a node
/// share the page cache, so a window contains the samples of all these ranks, and each rank prefetches the
/// samples in its own part of the files.
class SharesAhead {
 public:
  struct Reader {
    int rank = 0;
    int num_ranks = 1;
    std::vector<int> node_ranks{0};  ///< ranks on this rank's node, including this rank; ascending
  };
  /// Callback that prefetches the samples of these entries.
  using Prefetch = std::function<void(std::span<const std::int64_t>)>;

  /// `entries` is the number of entries over all sources; the schedule's entries are in [0, entries).
  /// `window` is the maximum number of steps whose samples are prefetched together. The schedule must outlive
  /// this object. Precondition: reader.node_ranks contains reader.rank and is ascending.
  SharesAhead(BatchSchedule& schedule, std::int64_t entries, Reader reader, std::int64_t window,
              Prefetch prefetch);

  /// Returns the entries of this rank's share of a step, and prefetches entries of later steps. Fastest if
  /// steps are taken in order.
  [[nodiscard]] std::vector<std::int64_t> fetch_share(std::int64_t step);

 private:
  [[nodiscard]] std::int64_t end_of_drawn_steps() const noexcept { return first_step_ + std::ssize(shares_); }
  void draw_shares_until(std::int64_t step);
  void collect_entries_until(std::int64_t step);
  void prefetch_window_part(std::int64_t step);

  BatchSchedule& schedule_;
  std::int64_t entries_;
  Reader reader_;
  std::int64_t window_;
  Prefetch prefetch_;
  std::int64_t first_step_ = 0;                    // number of the step of the first element of shares_
  std::deque<std::vector<std::int64_t>> shares_;   // shares of consecutive steps that were not returned yet
  std::int64_t window_end_ = 0;                    // first step after the window that is being read
  std::vector<std::int64_t> entries_to_prefetch_;  // entries of the next window to prefetch, ascending
  std::size_t num_prefetched_ = 0;  // number of elements of entries_to_prefetch_ that have been prefetched
};

}  // namespace evenkeel
