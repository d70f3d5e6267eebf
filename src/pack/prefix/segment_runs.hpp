#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/pack/prefix/packed.hpp"

namespace evenkeel {

/// The runs of true rows of one CP rank (packed_runs()), grouped by segment.
class SegmentRuns {
 public:
  SegmentRuns(const PackedTreeLayout& layout, CpRank rank);

  [[nodiscard]] std::int64_t size() const noexcept { return std::ssize(runs_); }
  [[nodiscard]] const PackedRun& operator[](std::int64_t run) const {
    return runs_[static_cast<std::size_t>(run)];
  }
  /// Returns the range of indices of the runs that belong to a segment.
  [[nodiscard]] RowRange runs_of(std::int64_t segment) const;
  /// Returns the local row of a run's tokens minus their position in their samples. This difference is the
  /// same for all tokens of the run.
  [[nodiscard]] std::int64_t shift_of(std::int64_t run) const;

 private:
  const PrefixTree* tree_;
  std::vector<PackedRun> runs_;
  std::vector<std::int64_t> first_;  // index of each segment's first run, followed by the number of runs
};

/// Looks up the tokens that follow the rows of a CP rank's runs. These tokens are among the rank's own tokens
/// and the halo tokens that the rank received (see derive_labels()).
class FollowingTokens {
 public:
  /// `layout` and the tokens must outlive this object.
  FollowingTokens(const PackedTreeLayout& layout, CpRank rank, std::span<const std::int64_t> local,
                  std::span<const std::int64_t> halo, std::int64_t reach);

  [[nodiscard]] const SegmentRuns& runs() const noexcept { return runs_; }
  /// Writes the tokens that are `ahead` rows after the local rows `rows` of a run, along `path`, which begins
  /// with the run's own segment. Writes `pad` after the end of the path. Throws InputError if a token is
  /// missing from the halo. Precondition: 1 <= ahead <= reach.
  void write(std::int64_t run, RowRange rows, std::int64_t ahead, std::span<const std::int64_t> path,
             std::int64_t pad, std::span<std::int64_t> out) const;

 private:
  [[nodiscard]] std::int64_t halo_token(std::int64_t place) const;
  [[nodiscard]] std::int64_t token_after(std::int64_t run, std::span<const std::int64_t> path,
                                         std::int64_t position, std::int64_t pad) const;

  const PrefixTree& tree_;
  SegmentRuns runs_;
  std::span<const std::int64_t> local_;
  std::span<const std::int64_t> halo_;
  std::int64_t reach_;
};

}  // namespace evenkeel
