#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/pack/prefix/groups.hpp"

namespace evenkeel {

/// One segment of a tree, as input.
struct TreeNode {
  std::int64_t parent = -1;  ///< an earlier segment; -1 for a root
  std::int64_t tokens = 0;

  friend constexpr bool operator==(TreeNode, TreeNode) = default;
};

/// A run of tokens that the same samples share.
struct TreeSegment {
  RowRange rows;                  ///< its rows in the tree
  std::int64_t parent = -1;       ///< the segment before it; -1 for a root
  std::int64_t depth = 0;         ///< tokens before it in its samples: its first position id
  std::int64_t subtree_end = 0;   ///< its descendants are the segments after it up to this one, exclusive
  std::int64_t first_sample = 0;  ///< the lowest number of a sample that goes through it
  std::int64_t num_samples = 0;   ///< samples that go through it; it is shared if above 1

  /// Where its tokens are in each of its samples.
  [[nodiscard]] constexpr RowRange source() const noexcept { return {depth, depth + rows.size()}; }
  friend constexpr bool operator==(const TreeSegment&, const TreeSegment&) = default;
};

/// Samples that share prefixes, and prefixes of prefixes, laid out depth-first with every shared token once.
/// A value type.
///
/// Segments are numbered depth-first: a parent, then the subtree of each child. Their rows are back to back
/// in that order. A sample is the path of segments from a root to the segment where it ends; an empty sample
/// ends at none (-1). Samples that share nothing have different roots.
///
/// Example: samples {1,2,3,4}, {1,2,3,5,6} and {1,2,7} make segments of 2, 1, 1, 2 and 1 tokens,
/// `1 2 | 3 | 4 | 5 6 | 7`, with parents -1, 0, 1, 1, 0 and depths 0, 2, 3, 3, 2.
class PrefixTree {
 public:
  PrefixTree() = default;
  /// A tree from its structure: segments in depth-first order, and for each sample the segment where it ends
  /// (-1: the sample is empty). This is how a tree is sent: as two short lists, without tokens. Throws
  /// InputError if a parent is not on the path from the previous segment to its root, a length is negative, a
  /// sample ends at no segment, or no sample goes through a segment; LimitError above 2^31-1 rows. O(segments
  /// + samples).
  PrefixTree(std::span<const TreeNode> segments, std::vector<std::int64_t> sample_ends);

  /// The tree of samples with these tokens: two samples share all tokens up to the first that differs. A
  /// segment ends where samples diverge or one of them ends, so that paths consist of whole segments, none of
  /// which is empty. Siblings are in the order of their first samples. Equal samples share all their
  /// segments. O(total length of the samples).
  ///
  /// With `ahead` they share a token only if the `ahead` tokens after it are equal, too, or the end that
  /// comes before: what a module that predicts further tokens embeds at its row. A segment ends so much
  /// earlier, and a sample ends where no other goes on. The example's, 1 ahead: `1 | 2 | 3 4 | 3 5 6 | 2 7`.
  [[nodiscard]] static PrefixTree of_tokens(std::span<const std::span<const std::int64_t>> samples,
                                            std::int64_t ahead = 0);
  /// The tree of groups, without their tokens: a root for each prefix, a child for each suffix, in the order
  /// of PackedPrefixLayout; samples are the suffixes. Empty prefixes and suffixes are segments, too.
  [[nodiscard]] static PrefixTree of_groups(const PrefixGroups& groups);

  /// Segments.
  [[nodiscard]] std::int64_t size() const noexcept { return static_cast<std::int64_t>(segments_.size()); }
  [[nodiscard]] std::span<const TreeSegment> segments() const noexcept { return segments_; }
  [[nodiscard]] const TreeSegment& segment(std::int64_t s) const noexcept {
    return segments_[static_cast<std::size_t>(s)];
  }
  /// Tokens, counting each shared one once.
  [[nodiscard]] std::int64_t num_rows() const noexcept {
    return segments_.empty() ? 0 : segments_.back().rows.end;
  }
  [[nodiscard]] std::int64_t num_samples() const noexcept {
    return static_cast<std::int64_t>(sample_ends_.size());
  }
  /// The segment where a sample ends; -1 for an empty sample.
  [[nodiscard]] std::int64_t sample_end(std::int64_t sample) const noexcept {
    return sample_ends_[static_cast<std::size_t>(sample)];
  }
  [[nodiscard]] std::span<const std::int64_t> sample_ends() const noexcept { return sample_ends_; }
  [[nodiscard]] std::int64_t sample_length(std::int64_t sample) const noexcept;

  /// The segments from a root to this one, both included; none for -1.
  [[nodiscard]] std::vector<std::int64_t> path_to(std::int64_t segment) const;
  /// The row of every token of a sample.
  [[nodiscard]] std::vector<std::int64_t> rows_of(std::int64_t sample) const;
  /// For every token t of a sample, the row that predicts it, which is the row of token t-1. Where samples
  /// diverge, the row before serves all of them: gathering by these rows repeats it. Nothing predicts token
  /// 0: -1. The row's position id is t-1.
  [[nodiscard]] std::vector<std::int64_t> prediction_rows(std::int64_t sample) const;

  /// All samples in the order in which a depth-first walk meets their ends; equal ones by number.
  [[nodiscard]] std::vector<std::int64_t> depth_first_samples() const;
  /// The tree of some of the samples, numbered as listed, with the segments in this tree's order. Segments
  /// between which none of them diverges or ends are merged, and empty ones removed. Throws InputError if a
  /// sample does not exist. O(segments + samples).
  [[nodiscard]] PrefixTree subtree(std::span<const std::int64_t> samples) const;

  friend bool operator==(const PrefixTree&, const PrefixTree&) = default;

 private:
  void count_samples();

  std::vector<TreeSegment> segments_;
  std::vector<std::int64_t> sample_ends_;
};

}  // namespace evenkeel
