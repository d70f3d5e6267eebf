#pragma once

#include <cstdint>

#include "evenkeel/pack/prefix/packed.hpp"

namespace evenkeel {

/// Adjacent rows of one segment, including pad rows, that are also adjacent in the order of keys.
struct KeyRun {
  std::int64_t segment = 0;
  RowRange rows;           ///< relative to the segment
  std::int64_t first = 0;  ///< number of the first row's key
};

/// Calls visit(KeyRun) for all keys of a micro-batch, in the order of the keys.
template <typename Visit>
void for_each_key_run(const PackedLayout& segments, KeyOrder keys, Visit visit) {
  if (keys == KeyOrder::packed) {
    for (std::int64_t s = 0; s < segments.size(); ++s)
      visit(KeyRun{
          s, {0, segments.aligned_length(s)}, segments.cu_seqlens_padded()[static_cast<std::size_t>(s)]});
    return;
  }
  std::int64_t first = 0;
  for (int rank = 0; rank < segments.cp().size; ++rank) {
    for (std::int64_t s = 0; s < segments.size(); ++s) {
      for (const RowRange& rows : cp_runs(segments.aligned_length(s), segments.cp(), CpRank{rank})) {
        visit(KeyRun{s, rows, first});
        first += rows.size();
      }
    }
  }
}

/// The local rows of one CP rank, which are its queries.
class LocalQueries {
 public:
  LocalQueries(const PackedTreeLayout& layout, CpRank rank) : layout_(&layout), rank_(rank) {}

  /// Returns the rank's rows of a segment, as runs relative to the segment.
  [[nodiscard]] CpRuns runs(std::int64_t segment) const {
    const PackedLayout& segments = layout_->segments();
    return cp_runs(segments.aligned_length(segment), segments.cp(), rank_);
  }
  /// Returns the first query of a segment.
  [[nodiscard]] std::int64_t begin(std::int64_t segment) const {
    return layout_->segments().local_range(segment).begin;
  }
  /// Returns the end of the queries of a segment and of all segments below it.
  [[nodiscard]] std::int64_t subtree_end(std::int64_t segment) const {
    return layout_->segments().local_range(layout_->tree().segment(segment).subtree_end - 1).end;
  }

 private:
  const PackedTreeLayout* layout_;
  CpRank rank_;
};

}  // namespace evenkeel
