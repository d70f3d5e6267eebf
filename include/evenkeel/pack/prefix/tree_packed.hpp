#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/pack/prefix/packed.hpp"
#include "evenkeel/pack/prefix/tree.hpp"

namespace evenkeel {

/// The rows that every row of a tree sees, as two numbers a row: query row q sees key row k if and only if
///
///     tin[k] <= tin[q] && tin[q] < tout[k]
///
/// which holds exactly if k's token is q's own or before it in all of q's samples. Nothing else is needed:
/// tin numbers the rows depth-first, which includes the order inside a segment, and tout is the number
/// after the last row of the subtree. Two comparisons make the mask for any attention function that takes
/// one.
///
/// Example: for segments `1 2 | 3 | 4 | 5 6 | 7` tin is 0 to 6 and tout is 7 7 6 4 6 6 7.
struct AncestorIntervals {
  std::vector<std::int64_t> tin;
  std::vector<std::int64_t> tout;

  friend bool operator==(const AncestorIntervals&, const AncestorIntervals&) = default;
};
/// For the rows of a tree. O(rows).
[[nodiscard]] AncestorIntervals ancestor_intervals(const PrefixTree& tree);

/// Position ids of the rows of a tree: every token's position in its own samples. O(rows).
[[nodiscard]] std::vector<std::int64_t> position_ids(const PrefixTree& tree);

/// What sharing saves. Score entries are the query-key pairs of causal attention, counted exactly.
struct SharingSavings {
  std::int64_t tokens = 0;                  ///< with every shared token once
  std::int64_t repeated_tokens = 0;         ///< with every sample on its own
  std::int64_t score_entries = 0;           ///< with sharing
  std::int64_t repeated_score_entries = 0;  ///< with every sample on its own

  SharingSavings& operator+=(const SharingSavings& other) noexcept;
  friend bool operator==(const SharingSavings&, const SharingSavings&) = default;
};
/// O(segments + samples).
[[nodiscard]] SharingSavings sharing_savings(const PrefixTree& tree);

/// A tree in one packed micro-batch: its segments back to back, depth-first, each aligned and cut over the CP
/// ranks on its own, as in PackedPrefixLayout for trees with one level. Tokens are packed, cut and merged
/// with segments(), whose ragged rows are the rows of tree(). A value type.
///
/// Example: the tree `1 2 | 3 | 4 | 5 6 | 7` with alignment 4 and cp 2 takes 4 rows a segment, 2 of them on
/// each rank.
class PackedTreeLayout {
 public:
  /// Throws as PackedLayout does. O(segments).
  PackedTreeLayout(PrefixTree tree, std::int64_t alignment, CpGroup cp);
  /// The rows of prefix groups as a tree with one level.
  explicit PackedTreeLayout(const PackedPrefixLayout& groups);

  [[nodiscard]] const PrefixTree& tree() const noexcept { return tree_; }
  [[nodiscard]] const PackedLayout& segments() const noexcept { return segments_; }

  friend bool operator==(const PackedTreeLayout&, const PackedTreeLayout&) = default;

 private:
  PrefixTree tree_;
  PackedLayout segments_;
};

/// Position ids of one CP rank's rows: every segment counts from its depth; pad rows continue counting. `out`
/// has segments().local_rows() elements.
void derive_position_ids(const PackedTreeLayout& layout, CpRank rank, std::span<std::int64_t> out);

/// Ancestor intervals of one CP rank's rows, including pad rows. The numbers are the same on all ranks, so
/// queries of one rank can be compared with keys of any: concatenate the ranks' lists in the order in which
/// an all-gather puts their keys. No query sees a pad row. A pad row sees its own segment and those before
/// it, so that no row's softmax is empty. O(local rows).
[[nodiscard]] AncestorIntervals ancestor_intervals(const PackedTreeLayout& layout, CpRank rank);

/// What a varlen attention kernel needs on one CP rank; see PrefixAttentionPlan. The keys of a run are the
/// rows of all segments before it, then those of its own segment. O(sum of the segments' path lengths).
[[nodiscard]] PrefixAttentionPlan plan_prefix_attention(const PackedTreeLayout& layout, CpRank rank);

}  // namespace evenkeel
