#pragma once

#include <cstdint>
#include <vector>

#include "evenkeel/pack/prefix/tree.hpp"

namespace evenkeel {

/// Rows a tree takes when each segment is aligned on its own. Precondition: alignment >= 1.
[[nodiscard]] std::int64_t aligned_rows(const PrefixTree& tree, std::int64_t alignment);

/// Some samples of a tree, and the tree they make.
struct SubTree {
  std::vector<std::int64_t> samples;  ///< ascending; sample i of `tree` is samples[i]
  PrefixTree tree;                    ///< see PrefixTree::subtree

  friend bool operator==(const SubTree&, const SubTree&) = default;
};

/// Splits a tree into trees of at most `max_tokens` aligned rows each. Every sample goes to one part, and a
/// part repeats the tokens that its samples share with those of other parts. Samples of one part are
/// neighbours depth-first, each part is filled before the next is begun, and no split of that order has fewer
/// parts. A tree that fits stays whole. Deterministic; O(segments + samples * segments of a path), plus the
/// subtrees'.
///
/// Throws LimitError that names the first sample that does not fit on its own, its length, its aligned length
/// and the cap; InputError when the alignment or the cap is below 1.
[[nodiscard]] std::vector<SubTree> split_tree(const PrefixTree& tree, std::int64_t alignment,
                                              std::int64_t max_tokens);

}  // namespace evenkeel
