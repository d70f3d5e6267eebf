#include "plan/units/segments.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace evenkeel {

SegmentTable::SegmentTable(std::vector<Segment> whole_samples, const IdGroups<EntryId>& shares)
    : segments_(std::move(whole_samples)),
      path_offsets_(segments_.size() + 1),
      path_items_(segments_.size()),
      shares_(shares.items()) {
  std::iota(path_offsets_.begin(), path_offsets_.end(), std::int64_t{0});
  std::ranges::copy(ids_below<SegmentId>(size()), path_items_.begin());
}

SegmentTable::SegmentTable(std::vector<Segment> segments, const SegmentPaths& paths,
                           IdGroups<SegmentId> shares)
    : segments_(std::move(segments)), shares_(std::move(shares)) {
  path_offsets_.reserve(paths.ends.size() + 1);
  for (const SegmentId end : paths.ends) {
    for (SegmentId s = end; s != no_segment; s = paths.parents[s.index()]) path_items_.push_back(s);
    std::reverse(path_items_.begin() + path_offsets_.back(), path_items_.end());
    path_offsets_.push_back(std::ssize(path_items_));
  }
}

}  // namespace evenkeel
