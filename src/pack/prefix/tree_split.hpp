#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/pack/prefix/tree.hpp"
#include "pack/prefix/fewest_repeats.hpp"

namespace evenkeel {

/// Rows a tree takes when each segment is aligned on its own. Precondition: alignment >= 1.
[[nodiscard]] std::int64_t aligned_rows(const PrefixTree& tree, std::int64_t alignment);

/// The samples of a tree in the order of depth_first_samples(), and what each shares with the one before it.
/// O(samples * segments of a path).
[[nodiscard]] OrderedSamples ordered_samples(const PrefixTree& tree);

/// Some samples of a tree, and the tree they make.
struct SubTree {
  std::vector<std::int64_t> samples;  ///< ascending; sample i of `tree` is samples[i]
  PrefixTree tree;                    ///< see PrefixTree::subtree
  std::int64_t repeated = 0;          ///< of its tokens, those that parts before it hold, too
  /// Why it is not one with the part before it: the first limit that the two would break together, 0 for
  /// `max_tokens`, l + 1 for `limits[l]`. 0 for the first part.
  std::size_t forced_by = 0;

  friend bool operator==(const SubTree&, const SubTree&) = default;
};

/// Splits a tree into trees of at most `max_tokens` aligned rows each, whose samples break none of `limits`
/// together. Every sample goes to one part, and a part repeats the tokens that its samples share with those
/// of other parts. Samples of one part are neighbors depth-first. No split of that order repeats fewer
/// tokens; of those that repeat as few, it has the fewest parts, and then fills each before the next is
/// begun. (Another order of the samples may repeat fewer: the least of all orders is a bin packing problem.)
/// A tree that fits stays whole. Deterministic; O(segments + samples * segments of a path), plus the
/// subtrees'.
///
/// No path from a root to a leaf gets longer or shorter: a path is a sample, and a sample is never cut.
///
/// Throws LimitError that names the first sample that does not fit on its own, its length, its aligned length
/// and the cap; InputError when the alignment or the cap is below 1. Precondition: every sample fits under
/// `limits`, which list the tree's samples by number.
[[nodiscard]] std::vector<SubTree> split_tree(const PrefixTree& tree, std::int64_t alignment,
                                              std::int64_t max_tokens,
                                              std::span<const PartLimit> limits = {});

/// For each segment, parts that have it in any split of the tree into parts of at most `max_tokens` tokens,
/// at the least: in whatever order samples are taken, and however they are aligned. What is below a segment,
/// with what it repeats in turn, is in parts that have no more room below it than the cap without the tokens
/// up to it. Precondition: every sample fits on its own. O(segments).
[[nodiscard]] std::vector<std::int64_t> least_parts(const PrefixTree& tree, std::int64_t max_tokens);

}  // namespace evenkeel
