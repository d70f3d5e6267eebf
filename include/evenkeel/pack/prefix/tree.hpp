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

/// A run of tokens shared by the same samples.
struct TreeSegment {
  RowRange rows;             ///< its rows in the tree
  std::int64_t parent = -1;  ///< the preceding segment; -1 for a root
  std::int64_t depth = 0;    ///< number of tokens before it in its samples, which is its first position id
  std::int64_t subtree_end = 0;   ///< its descendants are the segments after it up to this one, exclusive
  std::int64_t first_sample = 0;  ///< the lowest number of its samples
  std::int64_t num_samples = 0;   ///< number of samples that contain it; it is shared if this is above 1

  /// Returns the range of its tokens in each of its samples.
  [[nodiscard]] constexpr RowRange source() const noexcept { return {depth, depth + rows.size()}; }
  friend constexpr bool operator==(const TreeSegment&, const TreeSegment&) = default;
};

/// Samples that share prefixes, and prefixes of prefixes, laid out depth-first with every shared token once.
/// A value type.
///
/// Segments are numbered depth-first: a parent, then the subtree of each child. Their rows are back to back
/// in that order. A sample is the path of segments from a root to the segment where it ends (-1 for an empty
/// sample). Samples that share nothing have different roots.
///
/// Example: samples {1,2,3,4}, {1,2,3,5,6} and {1,2,7} make segments of 2, 1, 1, 2 and 1 tokens,
/// `1 2 | 3 | 4 | 5 6 | 7`, with parents -1, 0, 1, 1, 0 and depths 0, 2, 3, 3, 2.
class PrefixTree {
 public:
  PrefixTree() = default;
  /// Makes a tree from its structure: segments in depth-first order, and for each sample the segment where it
  /// ends (-1 if the sample is empty). Trees are sent in this form: as two short lists, without tokens.
  /// Throws InputError if a parent is not on the path from the previous segment to its root, a length is
  /// negative, a sample ends at a segment that does not exist, or a segment does not belong to any sample;
  /// LimitError above 2^31-1 rows. O(segments + samples).
  PrefixTree(std::span<const TreeNode> segments, std::vector<std::int64_t> sample_ends);

  /// Returns the tree of samples with these tokens: two samples share all tokens before the first one that
  /// differs. A segment ends where samples diverge or one of them ends, so paths consist of whole segments,
  /// which are never empty. Siblings are in the order of their first samples. Equal samples share all their
  /// segments. O(total length of the samples).
  ///
  /// With `ahead`, samples share a token only if the next `ahead` tokens, up to the end, are also equal,
  /// since a module that predicts further tokens embeds these at the token's row. Segments end that much
  /// earlier, and a sample ends at a segment that no other sample continues. The example's tree with `ahead`
  /// = 1 is `1 | 2 | 3 4 | 3 5 6 | 2 7`.
  [[nodiscard]] static PrefixTree from_tokens(std::span<const std::span<const std::int64_t>> samples,
                                              std::int64_t ahead = 0);
  /// Returns the tree of groups, without their tokens: a root per prefix and a child per suffix, in the order
  /// of PackedPrefixLayout; samples are the suffixes. Empty prefixes and suffixes are also segments.
  [[nodiscard]] static PrefixTree from_groups(const PrefixGroups& groups);

  /// Returns the number of segments.
  [[nodiscard]] std::int64_t size() const noexcept { return static_cast<std::int64_t>(segments_.size()); }
  [[nodiscard]] std::span<const TreeSegment> segments() const noexcept { return segments_; }
  [[nodiscard]] const TreeSegment& segment(std::int64_t s) const noexcept {
    return segments_[static_cast<std::size_t>(s)];
  }
  /// Returns the number of tokens, counting each shared token once.
  [[nodiscard]] std::int64_t num_rows() const noexcept {
    return segments_.empty() ? 0 : segments_.back().rows.end;
  }
  [[nodiscard]] std::int64_t num_samples() const noexcept {
    return static_cast<std::int64_t>(sample_ends_.size());
  }
  /// Returns the segment where a sample ends; -1 for an empty sample.
  [[nodiscard]] std::int64_t sample_end(std::int64_t sample) const noexcept {
    return sample_ends_[static_cast<std::size_t>(sample)];
  }
  [[nodiscard]] std::span<const std::int64_t> sample_ends() const noexcept { return sample_ends_; }
  [[nodiscard]] std::int64_t sample_length(std::int64_t sample) const noexcept;

  /// Returns the segments from a root to this one, both included; empty for -1.
  [[nodiscard]] std::vector<std::int64_t> path_to(std::int64_t segment) const;
  /// Returns the row of every token of a sample.
  [[nodiscard]] std::vector<std::int64_t> rows_of(std::int64_t sample) const;
  /// Returns, for every token t of a sample, the row that predicts it, which is the row of token t-1; -1 for
  /// token 0, which is not predicted. Where samples diverge, the row before serves all of them, so gathering
  /// by these rows repeats it. The row's position id is t-1.
  [[nodiscard]] std::vector<std::int64_t> prediction_rows(std::int64_t sample) const;

  /// Returns all samples in the order in which a depth-first walk reaches their ends; equal samples in
  /// ascending order.
  [[nodiscard]] std::vector<std::int64_t> depth_first_samples() const;
  /// Returns the tree of some of the samples, numbered as listed, with the segments in this tree's order.
  /// Segments between which none of these samples diverges or ends are merged, and empty ones are removed.
  /// Throws InputError if a sample does not exist. O(segments + samples).
  [[nodiscard]] PrefixTree subtree(std::span<const std::int64_t> samples) const;

  friend bool operator==(const PrefixTree&, const PrefixTree&) = default;

 private:
  void count_samples();

  std::vector<TreeSegment> segments_;
  std::vector<std::int64_t> sample_ends_;
};

}  // namespace evenkeel
