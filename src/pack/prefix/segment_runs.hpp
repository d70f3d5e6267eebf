#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/pack/prefix/packed.hpp"

namespace evenkeel {

/// The runs of one CP rank, and which of them are of each segment.
class SegmentRuns {
 public:
  SegmentRuns(const PackedTreeLayout& layout, CpRank rank);

  [[nodiscard]] std::int64_t size() const noexcept { return std::ssize(runs_); }
  [[nodiscard]] const PackedRun& operator[](std::int64_t run) const {
    return runs_[static_cast<std::size_t>(run)];
  }
  /// The numbers of a segment's runs.
  [[nodiscard]] RowRange of(std::int64_t segment) const;
  /// From a token's position in its samples to its local row, in this run.
  [[nodiscard]] std::int64_t shift_of(std::int64_t run) const;

 private:
  const PrefixTree* tree_;
  std::vector<PackedRun> runs_;
  std::vector<std::int64_t> first_;  // segments + 1
};

/// The tokens behind runs: those that the rank has, and those that it was sent (see derive_labels).
class TokensBehind {
 public:
  /// Of `layout`, which must outlive it, like the tokens.
  TokensBehind(const PackedTreeLayout& layout, CpRank rank, std::span<const std::int64_t> local,
               std::span<const std::int64_t> halo, std::int64_t reach);

  [[nodiscard]] const SegmentRuns& runs() const noexcept { return runs_; }
  /// Writes the tokens `ahead` rows behind local rows of a run, `pad` behind the last segment of `path`,
  /// which begins with the run's own. Precondition: 1 <= ahead <= reach. Throws InputError if one is not
  /// there.
  void write(std::int64_t run, RowRange rows, std::int64_t ahead, std::span<const std::int64_t> path,
             std::int64_t pad, std::span<std::int64_t> out) const;

 private:
  [[nodiscard]] std::int64_t sent(std::int64_t place) const;
  [[nodiscard]] std::int64_t behind(std::int64_t run, std::span<const std::int64_t> path,
                                    std::int64_t position, std::int64_t pad) const;

  const PrefixTree& tree_;
  SegmentRuns runs_;
  std::span<const std::int64_t> local_;
  std::span<const std::int64_t> halo_;
  std::int64_t reach_;
};

}  // namespace evenkeel
