#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "evenkeel/pack/prefix/packed.hpp"

namespace evenkeel {
namespace {

/// Adjacent rows of one segment, including pad rows, that are also adjacent in the order of the keys
/// (KeyOrder).
struct KeyRun {
  std::int64_t segment = 0;
  RowRange rows;           ///< relative to the segment
  std::int64_t first = 0;  ///< index of the run's first row among the micro-batch's keys
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

  /// Returns the rank's rows of a segment as runs of row numbers relative to the segment.
  [[nodiscard]] CpRuns runs(std::int64_t segment) const {
    const PackedLayout& segments = layout_->segments();
    return cp_runs(segments.aligned_length(segment), segments.cp(), rank_);
  }
  /// Returns the local row of a segment's first query.
  [[nodiscard]] std::int64_t first_query(std::int64_t segment) const {
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

/// Adds the attention slices of one segment's keys.
class SlicesOfSegment {
 public:
  SlicesOfSegment(const PackedTreeLayout& layout, CpRank rank, std::int64_t segment,
                  std::vector<AttentionSlice>& slices)
      : slices_(slices), length_(layout.segments().length(segment)) {
    const LocalQueries queries(layout, rank);
    std::int64_t local = queries.first_query(segment);
    for (const RowRange& run : queries.runs(segment)) {
      const RowRange rows{run.begin, std::min(run.end, length_)};
      if (rows.size() <= 0) break;
      own_.push_back({rows, {local, local + rows.size()}});
      local += rows.size();
    }
    later_queries_ = {local, queries.subtree_end(segment)};
  }

  /// Adds the slices of a run of keys. A true row of the segment sees its own key and all earlier keys. The
  /// segment's pad rows and all rows of segments below it see all keys.
  void add(const KeyRun& run) {
    const RowRange keys{run.rows.begin, std::min(run.rows.end, length_)};
    if (keys.size() <= 0) return;
    for (const OwnRun& own : own_)
      add_slice_of_queries(own, {keys.begin, std::min(keys.end, own.rows.end)}, run);
    if (later_queries_.size() > 0)
      slices_.push_back({later_queries_, {run.first, run.first + keys.size()}, AttentionSlice::Kind::full});
  }

 private:
  struct OwnRun {
    RowRange rows;  ///< true rows, relative to the segment
    RowRange queries;
  };

  // Precondition: `keys` ends either at the end of `own.rows` or before its first row.
  void add_slice_of_queries(const OwnRun& own, RowRange keys, const KeyRun& run) {
    if (keys.size() <= 0) return;
    const bool all_see_all = keys.end <= own.rows.begin + 1;
    slices_.push_back({own.queries,
                       {run.first, run.first + keys.size()},
                       all_see_all ? AttentionSlice::Kind::full : AttentionSlice::Kind::causal});
  }

  std::vector<AttentionSlice>& slices_;
  std::int64_t length_;
  std::vector<OwnRun> own_;
  RowRange later_queries_;
};

/// Returns the number of rows in these runs that come before `row` in their segment.
std::int64_t rows_before(const CpRuns& runs, std::int64_t row) {
  std::int64_t before = 0;
  for (const RowRange& run : runs) before += std::clamp(row - run.begin, std::int64_t{0}, run.size());
  return before;
}

}  // namespace

std::vector<AttentionSlice> attention_slices(const PackedTreeLayout& layout, CpRank rank, KeyOrder keys) {
  std::vector<AttentionSlice> slices;
  for_each_key_run(layout.segments(), keys,
                   [&](const KeyRun& run) { SlicesOfSegment(layout, rank, run.segment, slices).add(run); });
  return slices;
}

// The queries that attend to a key are its own row, the later rows of its segment, and all rows of descendant
// segments. On every rank, these rows are contiguous.
ColumnIntervals column_intervals(const PackedTreeLayout& layout, CpRank rank, KeyOrder keys) {
  const PackedLayout& segments = layout.segments();
  const LocalQueries queries(layout, rank);
  const auto num_keys = static_cast<std::size_t>(segments.num_rows());
  ColumnIntervals intervals{std::vector<std::int32_t>(num_keys), std::vector<std::int32_t>(num_keys)};
  for_each_key_run(segments, keys, [&](const KeyRun& run) {
    const CpRuns own = queries.runs(run.segment);
    const std::int64_t begin = queries.first_query(run.segment);
    const auto end = static_cast<std::int32_t>(queries.subtree_end(run.segment));
    const std::int64_t true_end = std::min(run.rows.end, segments.length(run.segment));
    for (std::int64_t row = run.rows.begin; row < true_end; ++row) {
      const auto key = static_cast<std::size_t>(run.first + row - run.rows.begin);
      intervals.begin[key] = static_cast<std::int32_t>(begin + rows_before(own, row));
      intervals.end[key] = end;
      if (intervals.begin[key] == end) intervals.begin[key] = intervals.end[key] = 0;
    }
  });
  return intervals;
}

std::vector<float> additive_mask(const PackedTreeLayout& layout, CpRank rank, KeyOrder keys) {
  const ColumnIntervals intervals = column_intervals(layout, rank, keys);
  const std::size_t num_keys = intervals.begin.size();
  std::vector<float> mask(static_cast<std::size_t>(layout.segments().local_rows()) * num_keys,
                          -std::numeric_limits<float>::infinity());
  for (std::size_t key = 0; key < num_keys; ++key) {
    for (auto query = static_cast<std::size_t>(intervals.begin[key]);
         query < static_cast<std::size_t>(intervals.end[key]); ++query)
      mask[query * num_keys + key] = 0;
  }
  return mask;
}

}  // namespace evenkeel
