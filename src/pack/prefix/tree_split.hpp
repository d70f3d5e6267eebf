#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/pack/prefix/tree.hpp"
#include "pack/prefix/fewest_repeats.hpp"

namespace evenkeel {

/// Returns the number of rows of a tree if each segment is aligned separately. Precondition: alignment >= 1.
[[nodiscard]] std::int64_t aligned_rows(const PrefixTree& tree, std::int64_t alignment);

/// Returns the lengths of a tree's samples in the order of depth_first_samples(), and the number of tokens
/// that each sample has in common with the preceding one. O(samples * segments of a path).
[[nodiscard]] OrderedSamples ordered_samples(const PrefixTree& tree);

/// Some samples of a tree, and the tree of only these samples.
struct SubTree {
  /// Numbers of the samples in the original tree, ascending; sample i of `tree` is samples[i].
  std::vector<std::int64_t> samples;
  PrefixTree tree;            ///< result of PrefixTree::subtree() for `samples`
  std::int64_t repeated = 0;  ///< number of tokens of `tree` that earlier parts also contain
  /// The first limit that would be exceeded if this part were joined with the previous one: 0 is
  /// `max_tokens`, and l + 1 is `limits[l]`. Also 0 for the first part.
  std::size_t exceeded_limit = 0;

  friend bool operator==(const SubTree&, const SubTree&) = default;
};

/// Splits a tree into trees of at most `max_tokens` aligned rows each. The samples of each part stay within
/// all of `limits`. Every sample belongs to one part, and a part repeats the tokens that its samples share
/// with samples of other parts. The samples of a part are adjacent in depth-first order. Among all splits in
/// that order, returns the one with the fewest repeated tokens; on a tie, the one with the fewest parts; on a
/// further tie, the one with the longest first part, then the longest second part, and so on. (A different
/// order of the samples may repeat fewer tokens, but finding the best order is a bin packing problem.) A tree
/// that fits is not split. Deterministic; O(segments + samples * segments of a path), plus the cost of the
/// subtrees.
///
/// Paths from a root to a leaf keep their lengths, since each path is a sample and samples are never cut.
///
/// Throws LimitError for the first sample that does not fit by itself, with its number, its length, its
/// aligned length and the cap. Throws InputError if the alignment or the cap is below 1. Precondition: every
/// sample fits under `limits`, which list the tree's samples by number.
[[nodiscard]] std::vector<SubTree> split_tree(const PrefixTree& tree, std::int64_t alignment,
                                              std::int64_t max_tokens,
                                              std::span<const PartLimit> limits = {});

/// Returns, for each segment, a lower bound on the number of parts that contain the segment, for any split of
/// the tree into parts of at most `max_tokens` tokens, any order of the samples, and any alignment. Every
/// part that contains a segment also contains the path to the segment. This leaves at most `max_tokens` minus
/// the tokens up to the end of the segment for rows below the segment. The bound is the number of rows below
/// the segment, including repeated rows, divided by this remainder and rounded up. Precondition: every sample
/// fits by itself. O(segments).
[[nodiscard]] std::vector<std::int64_t> min_parts_per_segment(const PrefixTree& tree,
                                                              std::int64_t max_tokens);

}  // namespace evenkeel
