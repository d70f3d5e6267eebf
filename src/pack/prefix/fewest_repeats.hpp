#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/pack/cp_layout.hpp"

namespace evenkeel {

/// Samples of a tree in depth-first order.
struct OrderedSamples {
  std::vector<std::int64_t> lengths;
  /// Number of tokens in common with the preceding sample; 0 for the first sample.
  std::vector<std::int64_t> shared;

  [[nodiscard]] std::int64_t size() const noexcept { return std::ssize(lengths); }
};

/// An upper limit on the sum of some amount over the samples of a part (see split_tree()), in addition to the
/// limit on the part's rows.
struct PartLimit {
  std::vector<std::int64_t> sample_amounts;  ///< amount of each sample, at least 0
  std::int64_t most = 0;
};

/// Counts the rows of a run of consecutive samples: the rows of the samples' prefix tree if each segment is
/// aligned separately. The run grows at its front and shrinks at its back; each operation takes O(segments of
/// a path).
class RunRows {
 public:
  /// Starts with an empty run after the last sample. `samples` must outlive this object. Precondition:
  /// alignment >= 1.
  RunRows(const OrderedSamples& samples, std::int64_t alignment);

  [[nodiscard]] std::int64_t rows() const noexcept { return rows_; }
  [[nodiscard]] std::int64_t begin() const noexcept { return begin_; }
  [[nodiscard]] std::int64_t end() const noexcept { return end_; }

  /// Adds the sample before the run. Precondition: the run does not begin with the first sample.
  void grow() noexcept;
  /// Removes the last sample of the run. Precondition: the run has more than one sample.
  void shrink() noexcept;

 private:
  [[nodiscard]] std::int64_t rows_added_by_branch_after(std::int64_t sample,
                                                        std::int64_t tokens) const noexcept;
  [[nodiscard]] std::int64_t rows_added_by_branch_before(std::int64_t sample,
                                                         std::int64_t tokens) const noexcept;
  [[nodiscard]] std::int64_t rows_added_by_branch(std::int64_t below, std::int64_t tokens,
                                                  std::int64_t above) const noexcept;

  const OrderedSamples* samples_;
  std::int64_t alignment_;
  std::vector<std::int64_t> next_smaller_;  // for each sample: the next sample with fewer `shared` tokens
  // For each sample: the nearest earlier sample with fewer `shared` tokens.
  std::vector<std::int64_t> previous_smaller_;
  std::int64_t begin_;
  std::int64_t end_;
  std::int64_t rows_ = 0;
};

/// A run of consecutive ordered samples, which forms one part.
struct OrderedRun {
  RowRange samples;
  std::int64_t repeated = 0;  ///< number of tokens of this run that earlier runs also contain
  /// The first limit that would be exceeded if this run were joined with the previous one: 0 is the limit on
  /// rows, and l + 1 is `limits[l]`. Also 0 for the first run.
  std::size_t exceeded_limit = 0;

  friend bool operator==(const OrderedRun&, const OrderedRun&) = default;
};

/// Cuts the samples into runs that have at most `max_rows` rows and stay within all limits. Among all such
/// cuts, returns the one with the fewest repeated tokens; on a tie, the one with the fewest runs; on a
/// further tie, the one with the longest first run, then the longest second run, and so on. A sample that
/// exceeds a limit by itself forms its own run. Preconditions: alignment >= 1; every limit has an amount for
/// each sample. O(samples * segments of a path).
[[nodiscard]] std::vector<OrderedRun> runs_with_fewest_repeats(const OrderedSamples& samples,
                                                               std::int64_t alignment, std::int64_t max_rows,
                                                               std::span<const PartLimit> limits);

}  // namespace evenkeel
