#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/balance/partition.hpp"
#include "evenkeel/base/row_range.hpp"

namespace evenkeel {

/// Rows of one sample that stand in the tensors as one sequence: aligned, and cut over the CP ranks on their
/// own. Without shared prefixes that is the whole sample. A segment that several samples share is taken from
/// one of them.
struct Segment {
  std::int64_t entry = 0;           ///< of the length table: the sample whose rows they are
  RowRange rows;                    ///< of that sample
  std::int64_t aligned_length = 0;  ///< over the whole CP group, alignment or padding counted

  friend constexpr bool operator==(const Segment&, const Segment&) = default;
};

/// The path of each sample's segments, from its last one back to its first.
struct SegmentPaths {
  std::vector<std::int64_t> parents;  ///< by segment: the one in front of it, -1 for none
  std::vector<std::int64_t> ends;     ///< by entry: its last segment, -1 for none
};

/// The segments of a step, and which of them make up each sample. Replicated. A value type.
class SegmentTable {
 public:
  SegmentTable() = default;
  /// One segment a sample, of the same number as its entry. `shares` are the entries of each DP rank.
  SegmentTable(std::vector<Segment> whole_samples, const Partition& shares);
  /// Segments that may be shared; `shares` are the segments of each DP rank.
  SegmentTable(std::vector<Segment> segments, const SegmentPaths& paths, Partition shares);

  [[nodiscard]] std::int64_t size() const noexcept { return static_cast<std::int64_t>(segments_.size()); }
  [[nodiscard]] const Segment& operator[](std::int64_t s) const noexcept {
    return segments_[static_cast<std::size_t>(s)];
  }
  [[nodiscard]] std::span<const Segment> segments() const noexcept { return segments_; }
  /// The segments of an entry, in order.
  [[nodiscard]] std::span<const std::int64_t> path_of(std::int64_t entry) const noexcept {
    const auto at = static_cast<std::size_t>(entry);
    return std::span(path_items_)
        .subspan(static_cast<std::size_t>(path_offsets_[at]),
                 static_cast<std::size_t>(path_offsets_[at + 1] - path_offsets_[at]));
  }
  /// The segments of each DP rank.
  [[nodiscard]] const Partition& shares() const noexcept { return shares_; }

  friend bool operator==(const SegmentTable&, const SegmentTable&) = default;

 private:
  std::vector<Segment> segments_;
  std::vector<std::int64_t> path_offsets_{0};
  std::vector<std::int64_t> path_items_;
  Partition shares_;
};

}  // namespace evenkeel
