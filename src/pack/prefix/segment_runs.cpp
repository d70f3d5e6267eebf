#include "pack/prefix/segment_runs.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include "evenkeel/base/assertions.hpp"
#include "evenkeel/base/error.hpp"
#include "pack/position_runs.hpp"

namespace evenkeel {

SegmentRuns::SegmentRuns(const PackedTreeLayout& layout, CpRank rank)
    : tree_(&layout.tree()), runs_(packed_runs(layout.segments(), rank)) {
  first_.resize(static_cast<std::size_t>(layout.segments().size()) + 1);
  for (const PackedRun& run : runs_) ++first_[static_cast<std::size_t>(run.index) + 1];
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
}

RowRange SegmentRuns::runs_of(std::int64_t segment) const {
  const auto s = static_cast<std::size_t>(segment);
  return {first_[s], first_[s + 1]};
}

std::int64_t SegmentRuns::shift_of(std::int64_t run) const {
  const PackedRun& of = (*this)[run];
  return of.local - tree_->segment(of.index).depth - of.sequence.begin;
}

FollowingTokens::FollowingTokens(const PackedTreeLayout& layout, CpRank rank,
                                 std::span<const std::int64_t> local, std::span<const std::int64_t> halo,
                                 std::int64_t reach)
    : tree_(layout.tree()), runs_(layout, rank), local_(local), halo_(halo), reach_(reach) {
  require_entries(local.size(), layout.segments().local_rows(), "local tokens");
}

void FollowingTokens::write(std::int64_t run, RowRange rows, std::int64_t ahead,
                            std::span<const std::int64_t> path, std::int64_t pad,
                            std::span<std::int64_t> out) const {
  EVENKEEL_PRECONDITION(cheap, 1 <= ahead && ahead <= reach_, ahead, reach_);
  const std::int64_t end = runs_[run].local + runs_[run].sequence.size();
  const std::int64_t own = std::clamp(end - ahead - rows.begin, std::int64_t{0}, rows.size());
  std::ranges::copy_n(local_.begin() + rows.begin + ahead, own, out.begin());
  for (std::int64_t i = own; i < rows.size(); ++i)
    out[static_cast<std::size_t>(i)] =
        token_after(run, path, rows.begin + i + ahead - runs_.shift_of(run), pad);
}

std::int64_t FollowingTokens::halo_token(std::int64_t place) const {
  if (place < std::ssize(halo_)) return halo_[static_cast<std::size_t>(place)];
  throw InputError("halo tokens", "the number of tokens is " + std::to_string(halo_.size()) + ", but token " +
                                      std::to_string(place) + ", counted from 0, is needed");
}

std::int64_t FollowingTokens::token_after(std::int64_t run, std::span<const std::int64_t> path,
                                          std::int64_t position, std::int64_t pad) const {
  const TreeSegment& own = tree_.segment(path.front());
  if (position < own.source().end)
    return halo_token(run * reach_ + position - own.depth - runs_[run].sequence.end);
  for (const std::int64_t s : path.subspan(1)) {
    const TreeSegment& segment = tree_.segment(s);
    if (position >= segment.source().end) continue;
    const std::int64_t offset = position - segment.depth;
    const RowRange runs = runs_.runs_of(s);
    const bool begins_here = !runs.empty() && runs_[runs.begin].sequence.begin == 0;
    if (begins_here && offset < runs_[runs.begin].sequence.size())
      return local_[static_cast<std::size_t>(runs_[runs.begin].local + offset)];
    return halo_token((runs_.size() + s) * reach_ + offset);
  }
  return pad;
}

}  // namespace evenkeel
