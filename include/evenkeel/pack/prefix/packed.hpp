#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/base/ids.hpp"
#include "evenkeel/pack/packed_layout.hpp"
#include "evenkeel/pack/prefix/groups.hpp"
#include "evenkeel/pack/prefix/tree.hpp"

namespace evenkeel {

/// Prefix groups in one packed micro-batch, `[prefix | suffix 1 | ... | suffix G]` group after group. Each
/// prefix and each suffix is a segment: aligned and cut over the CP ranks on its own, like a sequence, so
/// that every rank has an equal share of every prefix and every suffix. Tokens are packed, cut and merged
/// with segments(), whose ragged rows are the segments' tokens back to back. A value type.
///
/// Example: groups {{3, 2, 1}, {2, 4}} are segments of 3, 2, 1, 2 and 4 tokens in groups 0, 0, 0, 1, 1; with
/// alignment 4 and cp 2 each takes 4 rows, 2 of them on each rank.
class PackedPrefixLayout {
 public:
  /// `samples` has the source line of every suffix. Throws InputError if their number is wrong, and as
  /// PackedLayout does. O(b + n).
  PackedPrefixLayout(PrefixGroups groups, std::span<const SampleId> samples, std::int64_t alignment,
                     CpGroup cp);

  [[nodiscard]] const PrefixGroups& groups() const noexcept { return groups_; }
  /// The segments as b + n packed sequences.
  [[nodiscard]] const PackedLayout& segments() const noexcept { return segments_; }
  /// Source line of each segment; -1 for a prefix, which all samples of its group share.
  [[nodiscard]] std::span<const SampleId> segment_sample() const noexcept { return segment_sample_; }
  /// 0-based group of each segment within the micro-batch.
  [[nodiscard]] std::span<const std::int64_t> segment_group() const noexcept { return segment_group_; }
  /// The segment of group g's prefix; its suffixes follow.
  [[nodiscard]] std::int64_t prefix_segment(std::int64_t g) const noexcept {
    return g + groups_.suffixes_of(g).begin;
  }
  /// Tokens before the segment in its samples, which is also its first position id: 0 for a prefix, its
  /// prefix's length for a suffix.
  [[nodiscard]] std::int64_t tokens_before(std::int64_t segment) const noexcept;

  friend bool operator==(const PackedPrefixLayout&, const PackedPrefixLayout&) = default;

 private:
  PrefixGroups groups_;
  PackedLayout segments_;
  std::vector<SampleId> segment_sample_;
  std::vector<std::int64_t> segment_group_;
};

/// Position ids of one CP rank's rows: a prefix counts from 0, every suffix from its prefix's length; pad
/// rows continue counting, as in a packed layout without prefixes. `out` has segments().local_rows()
/// elements.
void derive_position_ids(const PackedPrefixLayout& layout, CpRank rank, std::span<std::int64_t> out);

/// What a varlen attention kernel needs on one CP rank: queries are the rank's local rows in place, keys and
/// values are gathered from all rows of the micro-batch. Entry e is one run of rows of one segment (see
/// cp_runs): its queries attend, causally and aligned at the last query and key (as in Flash Attention), to
/// the segment's prefix and to the segment up to the run's end.
///
/// The padded pair has no gaps on either side, so it works with kernels that support only one pair: a true
/// query never reaches a pad row. Kernels that support both pairs skip the pad rows.
struct PrefixAttentionPlan {
  std::vector<std::int32_t> cu_seqlens_q{0};         ///< true queries, entries + 1
  std::vector<std::int32_t> cu_seqlens_q_padded{0};  ///< local rows, entries + 1
  std::vector<std::int32_t> cu_seqlens_k{0};         ///< true keys
  std::vector<std::int32_t> cu_seqlens_k_padded{0};  ///< gathered rows
  std::int32_t max_seqlen_q = 0;                     ///< most local rows of an entry
  std::int32_t max_seqlen_k = 0;                     ///< most gathered rows of an entry
  std::vector<std::int64_t> segment;                 ///< of each entry
  std::vector<RowRange> key_rows;  ///< the rows of the whole micro-batch to gather, in order
};
/// Throws LimitError if the gathered keys exceed 2^31-1 rows. O(b + n).
[[nodiscard]] PrefixAttentionPlan plan_prefix_attention(const PackedPrefixLayout& layout, CpRank rank);

/// Query-key pairs that causal attention over a pair of cumulative lengths scores: the work of attention.
/// With zigzag, the padded pairs give every CP rank exactly the same number. The true pairs give at most
/// that: they leave out pad rows, which are on the ranks with a segment's last chunks. Throws InputError if
/// the lists have different sizes or an entry has fewer keys than queries.
[[nodiscard]] std::int64_t score_entries(std::span<const std::int32_t> cu_seqlens_q,
                                         std::span<const std::int32_t> cu_seqlens_k);

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
