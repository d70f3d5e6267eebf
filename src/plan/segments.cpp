#include "evenkeel/plan/segments.hpp"

#include <numeric>
#include <utility>

namespace evenkeel {

SegmentTable::SegmentTable(std::vector<Segment> whole_samples, const Partition& shares)
    : segments_(std::move(whole_samples)),
      path_offsets_(segments_.size() + 1),
      path_items_(segments_.size()),
      shares_(shares) {
  std::iota(path_offsets_.begin(), path_offsets_.end(), std::int64_t{0});
  std::iota(path_items_.begin(), path_items_.end(), std::int64_t{0});
}

SegmentTable::SegmentTable(std::vector<Segment> segments, std::span<const std::vector<std::int64_t>> paths,
                           Partition shares)
    : segments_(std::move(segments)), shares_(std::move(shares)) {
  for (const std::vector<std::int64_t>& path : paths) {
    path_items_.insert(path_items_.end(), path.begin(), path.end());
    path_offsets_.push_back(std::ssize(path_items_));
  }
}

}  // namespace evenkeel
