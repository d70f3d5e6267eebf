#include <algorithm>
#include <limits>

#include "evenkeel/pack/prefix/packed.hpp"
#include "pack/masks/key_runs.hpp"

namespace evenkeel {
namespace {

/// How many rows of these runs come before a row of their segment.
std::int64_t rows_before(const CpRuns& runs, std::int64_t row) {
  std::int64_t before = 0;
  for (const RowRange& run : runs) before += std::clamp(row - run.begin, std::int64_t{0}, run.size());
  return before;
}

}  // namespace

// A row is seen by those after it in its segment, and by all below: on every rank these are adjacent.
ColumnIntervals column_intervals(const PackedTreeLayout& layout, CpRank rank, KeyOrder keys) {
  const PackedLayout& segments = layout.segments();
  const LocalQueries queries(layout, rank);
  const auto num_keys = static_cast<std::size_t>(segments.num_rows());
  ColumnIntervals intervals{std::vector<std::int32_t>(num_keys), std::vector<std::int32_t>(num_keys)};
  for_each_key_run(segments, keys, [&](const KeyRun& run) {
    const CpRuns own = queries.runs(run.segment);
    const std::int64_t begin = queries.begin(run.segment);
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
