#pragma once

#include <cstdint>

#include "evenkeel/pack/prefix/packed.hpp"

namespace evenkeel {

/// Adjacent rows of one segment, pad rows included, that are adjacent keys, too.
struct KeyRun {
  std::int64_t segment = 0;
  RowRange rows;           ///< in the segment
  std::int64_t first = 0;  ///< the key of the first of them
};

/// All keys of a micro-batch, run after run. does(KeyRun).
template <typename Does>
void for_each_key_run(const PackedLayout& segments, KeyOrder keys, Does does) {
  if (keys == KeyOrder::packed) {
    for (std::int64_t s = 0; s < segments.size(); ++s)
      does(KeyRun{
          s, {0, segments.aligned_length(s)}, segments.cu_seqlens_padded()[static_cast<std::size_t>(s)]});
    return;
  }
  std::int64_t first = 0;
  for (int rank = 0; rank < segments.cp().size; ++rank) {
    for (std::int64_t s = 0; s < segments.size(); ++s) {
      for (const RowRange& rows : cp_runs(segments.aligned_length(s), segments.cp(), CpRank{rank})) {
        does(KeyRun{s, rows, first});
        first += rows.size();
      }
    }
  }
}

/// Local rows of one CP rank, which are its queries.
class LocalQueries {
 public:
  LocalQueries(const PackedTreeLayout& layout, CpRank rank) : layout_(&layout), rank_(rank) {}

  /// Of a segment: where they are in it.
  [[nodiscard]] CpRuns runs(std::int64_t segment) const {
    const PackedLayout& segments = layout_->segments();
    return cp_runs(segments.aligned_length(segment), segments.cp(), rank_);
  }
  /// The first of a segment.
  [[nodiscard]] std::int64_t begin(std::int64_t segment) const {
    return layout_->segments().local_range(segment).begin;
  }
  /// After the last of a segment and of all below it.
  [[nodiscard]] std::int64_t subtree_end(std::int64_t segment) const {
    return layout_->segments().local_range(layout_->tree().segment(segment).subtree_end - 1).end;
  }

 private:
  const PackedTreeLayout* layout_;
  CpRank rank_;
};

}  // namespace evenkeel
