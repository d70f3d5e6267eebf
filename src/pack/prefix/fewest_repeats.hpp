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
  std::vector<std::int64_t>
      shared;  ///< tokens that each has in common with the one before it; 0 of the first

  [[nodiscard]] std::int64_t size() const noexcept { return std::ssize(lengths); }
};

/// A limit on what the samples of a part have together, beside its rows.
struct PartLimit {
  std::vector<std::int64_t> of_samples;  ///< what each has, 0 or more
  std::int64_t most = 0;
};

/// The rows of a run of samples, as their tree has them when each segment is aligned on its own. The run
/// grows at its front and shrinks at its back; O(segments of a path) each.
class RunRows {
 public:
  /// No sample, before which the last one is next. `samples` must outlive it. Precondition: alignment >= 1.
  RunRows(const OrderedSamples& samples, std::int64_t alignment);

  [[nodiscard]] std::int64_t rows() const noexcept { return rows_; }
  [[nodiscard]] std::int64_t begin() const noexcept { return begin_; }
  [[nodiscard]] std::int64_t end() const noexcept { return end_; }

  /// Adds the sample before the run. Precondition: there is one.
  void grow() noexcept;
  /// Leaves out the last sample of the run. Precondition: it has more than one.
  void shrink() noexcept;

 private:
  [[nodiscard]] std::int64_t rows_of_branch_after(std::int64_t sample, std::int64_t tokens) const noexcept;
  [[nodiscard]] std::int64_t rows_of_branch_before(std::int64_t sample, std::int64_t tokens) const noexcept;
  [[nodiscard]] std::int64_t rows_of_branch(std::int64_t below, std::int64_t tokens,
                                            std::int64_t above) const noexcept;

  const OrderedSamples* samples_;
  std::int64_t alignment_;
  std::vector<std::int64_t>
      less_after_;  // the next sample after each that shares less with the one before it
  std::vector<std::int64_t> less_before_;  // the same before each
  std::int64_t begin_;
  std::int64_t end_;
  std::int64_t rows_ = 0;
};

/// A part of the samples.
struct OrderedRun {
  RowRange samples;
  std::int64_t repeated = 0;  ///< tokens that runs before it have, too
  /// Why it is not one with the run before it: the first limit that the two would break together, 0 for that
  /// of the rows, l + 1 for `limits[l]`. 0 for the first run.
  std::size_t forced_by = 0;

  friend bool operator==(const OrderedRun&, const OrderedRun&) = default;
};

/// Cuts the samples into runs that take at most `max_rows` rows and break none of the limits, so that they
/// repeat as few tokens as possible; with that into as few runs as possible; and with that, so that the first
/// is as long as possible, then the second, and so on. A sample that does not fit alone is a run of its own.
/// Preconditions: alignment >= 1, and limits list as many samples. O(samples * segments of a path).
[[nodiscard]] std::vector<OrderedRun> runs_with_fewest_repeats(const OrderedSamples& samples,
                                                               std::int64_t alignment, std::int64_t max_rows,
                                                               std::span<const PartLimit> limits);

}  // namespace evenkeel
