#include <algorithm>
#include <vector>

#include "evenkeel/pack/prefix/packed.hpp"
#include "pack/masks/key_runs.hpp"

namespace evenkeel {
namespace {

/// The slices of one segment's keys.
class SlicesOfSegment {
 public:
  SlicesOfSegment(const PackedTreeLayout& layout, CpRank rank, std::int64_t segment,
                  std::vector<AttentionSlice>& slices)
      : slices_(slices), length_(layout.segments().length(segment)) {
    const LocalQueries queries(layout, rank);
    std::int64_t local = queries.begin(segment);
    for (const RowRange& run : queries.runs(segment)) {
      const RowRange rows{run.begin, std::min(run.end, length_)};
      if (rows.size() <= 0) break;
      own_.push_back({rows, {local, local + rows.size()}});
      local += rows.size();
    }
    after_ = {local, queries.subtree_end(segment)};
  }

  /// Those of these keys: own rows up to each query, and all for pad rows and for what is below.
  void add(const KeyRun& run) {
    const RowRange keys{run.rows.begin, std::min(run.rows.end, length_)};
    if (keys.size() <= 0) return;
    for (const OwnRun& own : own_) add_own(own, {keys.begin, std::min(keys.end, own.rows.end)}, run);
    if (after_.size() > 0)
      slices_.push_back({after_, {run.first, run.first + keys.size()}, AttentionSlice::Kind::full});
  }

 private:
  struct OwnRun {
    RowRange rows;  ///< true ones, in the segment
    RowRange queries;
  };

  // Keys end with the last query, or before the first.
  void add_own(const OwnRun& own, RowRange keys, const KeyRun& run) {
    if (keys.size() <= 0) return;
    const bool all_see_all = keys.end <= own.rows.begin + 1;
    slices_.push_back({own.queries,
                       {run.first, run.first + keys.size()},
                       all_see_all ? AttentionSlice::Kind::full : AttentionSlice::Kind::causal});
  }

  std::vector<AttentionSlice>& slices_;
  std::int64_t length_;
  std::vector<OwnRun> own_;
  RowRange after_;
};

}  // namespace

std::vector<AttentionSlice> attention_slices(const PackedTreeLayout& layout, CpRank rank, KeyOrder keys) {
  std::vector<AttentionSlice> slices;
  for_each_key_run(layout.segments(), keys,
                   [&](const KeyRun& run) { SlicesOfSegment(layout, rank, run.segment, slices).add(run); });
  return slices;
}

}  // namespace evenkeel
