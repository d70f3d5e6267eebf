#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "evenkeel/base/ids.hpp"
#include "evenkeel/pack/packed_layout.hpp"
#include "evenkeel/pack/prefix/groups.hpp"
#include "evenkeel/pack/prefix/tree.hpp"

namespace evenkeel {

/// Prefix groups in one packed micro-batch, `[prefix | suffix 1 | ... | suffix G]` group after group. Each
/// prefix and each suffix is a segment: aligned and cut over the CP ranks separately, like a sequence, so
/// every rank has an equal share of every prefix and every suffix. Tokens are packed, cut and merged with
/// segments(), whose ragged rows are the segments' tokens back to back. A value type.
///
/// Example: groups {{3, 2, 1}, {2, 4}} are segments of 3, 2, 1, 2 and 4 tokens in groups 0, 0, 0, 1, 1; with
/// alignment 4 and cp 2, each takes 4 rows, 2 of them on each rank.
class PackedPrefixLayout {
 public:
  /// `samples` contains the source line of every suffix. Throws InputError if their number is wrong, and the
  /// errors of PackedLayout. O(b + n).
  PackedPrefixLayout(PrefixGroups groups, std::span<const SampleId> samples, std::int64_t alignment,
                     CpGroup cp);

  [[nodiscard]] const PrefixGroups& groups() const noexcept { return groups_; }
  /// Returns the segments as b + n packed sequences.
  [[nodiscard]] const PackedLayout& segments() const noexcept { return segments_; }
  /// Returns the source line of each segment; -1 for a prefix, which is shared by all samples of its group.
  [[nodiscard]] std::span<const SampleId> segment_sample() const noexcept { return segment_sample_; }
  /// Returns the 0-based group of each segment within the micro-batch.
  [[nodiscard]] std::span<const std::int64_t> segment_group() const noexcept { return segment_group_; }
  /// Returns the segment of group g's prefix; the segments of its suffixes follow.
  [[nodiscard]] std::int64_t prefix_segment(std::int64_t g) const noexcept {
    return g + groups_.suffixes_of(g).begin;
  }
  /// Returns the number of tokens before the segment in its samples, which is also its first position id: 0
  /// for a prefix, its prefix's length for a suffix.
  [[nodiscard]] std::int64_t tokens_before(std::int64_t segment) const noexcept;

  friend bool operator==(const PackedPrefixLayout&, const PackedPrefixLayout&) = default;

 private:
  PrefixGroups groups_;
  PackedLayout segments_;
  std::vector<SampleId> segment_sample_;
  std::vector<std::int64_t> segment_group_;
};

/// Writes the position ids of one CP rank's rows: a prefix counts from 0, every suffix from its prefix's
/// length; pad rows continue counting, as in a packed layout without prefixes. `out` has
/// segments().local_rows() elements.
void derive_position_ids(const PackedPrefixLayout& layout, CpRank rank, std::span<std::int64_t> out);

/// The arguments of a varlen attention kernel on one CP rank: queries are the rank's local rows in place;
/// keys and values are gathered from all rows of the micro-batch. Entry e is one run of rows of one segment
/// (see cp_runs): its queries attend, causally and aligned at the last query and key (as in Flash Attention),
/// to the segment's prefix and to the segment up to the run's end.
///
/// The padded pair has no gaps on either side, so it works with kernels that support only one pair: a true
/// query never reaches a pad row. Kernels that support both pairs skip the pad rows.
struct PrefixAttentionPlan {
  std::vector<std::int32_t> cu_seqlens_q{0};         ///< prefix sums of true queries, entries + 1
  std::vector<std::int32_t> cu_seqlens_q_padded{0};  ///< prefix sums of local rows, entries + 1
  std::vector<std::int32_t> cu_seqlens_k{0};         ///< prefix sums of true keys, entries + 1
  std::vector<std::int32_t> cu_seqlens_k_padded{0};  ///< prefix sums of gathered rows, entries + 1
  std::int32_t max_seqlen_q = 0;                     ///< maximum number of local rows of an entry
  std::int32_t max_seqlen_k = 0;                     ///< maximum number of gathered rows of an entry
  std::vector<std::int64_t> segment;                 ///< segment of each entry
  std::vector<RowRange> key_rows;                    ///< rows of the whole micro-batch to gather, in order
};
/// Returns the arguments for one CP rank. Throws LimitError if the gathered keys exceed 2^31-1 rows. O(b +
/// n).
[[nodiscard]] PrefixAttentionPlan plan_prefix_attention(const PackedPrefixLayout& layout, CpRank rank);

/// Returns the number of query-key pairs that causal attention scores for a pair of cumulative lengths, which
/// is the work of attention. With zigzag, the padded pair gives every CP rank exactly the same number. The
/// true pair gives at most that number, since it omits pad rows, which are on the ranks with a segment's last
/// chunks. Throws InputError if the lists have different sizes or an entry has fewer keys than queries.
[[nodiscard]] std::int64_t score_entries(std::span<const std::int32_t> cu_seqlens_q,
                                         std::span<const std::int32_t> cu_seqlens_k);

/// The rows that every row of a tree sees, as two numbers per row: query row q sees key row k if and only if
///
///     tin[k] <= tin[q] && tin[q] < tout[k]
///
/// that is, if and only if k's token is q's own or before it in all of q's samples. This is sufficient since
/// tin numbers the rows depth-first, including their order inside a segment, and tout is the number after the
/// last row of the subtree. Two comparisons give the mask for any attention function that takes one.
///
/// Example: for segments `1 2 | 3 | 4 | 5 6 | 7`, tin is 0 to 6 and tout is 7 7 6 4 6 6 7.
struct AncestorIntervals {
  std::vector<std::int64_t> tin;
  std::vector<std::int64_t> tout;

  friend bool operator==(const AncestorIntervals&, const AncestorIntervals&) = default;
};
/// Returns the intervals of the rows of a tree. O(rows).
[[nodiscard]] AncestorIntervals ancestor_intervals(const PrefixTree& tree);

/// Returns the position ids of the rows of a tree: every token's position in its own samples. O(rows).
[[nodiscard]] std::vector<std::int64_t> position_ids(const PrefixTree& tree);

/// The state with which each segment of a tree begins, in layers that carry a state from token to token
/// (linear attention, state spaces, convolutions), and how long a state is kept if segments are computed in
/// their order. Segments without tokens are skipped: those below them begin with the state of the last token
/// before. On CP ranks, sequence_runs() returns where that token is.
///
/// Example: in the tree `1 2 | 3 | 4 | 5 6 | 7`, segments begin with the states of segments -1 0 1 1 0, the
/// state of segment 0 is needed twice, last by segment 4, and at most two states are kept.
struct BranchStates {
  std::vector<std::int64_t> from;  ///< the segment that supplies the initial state; -1 if that is zero
  std::vector<std::int64_t> uses;  ///< number of segments that begin with this segment's last state
  /// The last segment that begins with this segment's last state, which may be freed afterwards; -1 if none
  /// does.
  std::vector<std::int64_t> last_use;
  std::int64_t peak_kept = 0;  ///< maximum number of states needed at once

  friend bool operator==(const BranchStates&, const BranchStates&) = default;
};
/// Returns the states of a tree's segments. O(segments).
[[nodiscard]] BranchStates branch_states(const PrefixTree& tree);

/// The savings of sharing. Score entries are the query-key pairs of causal attention, counted exactly.
struct SharingSavings {
  std::int64_t tokens = 0;                  ///< number of tokens, counting every shared token once
  std::int64_t repeated_tokens = 0;         ///< number of tokens if every sample were separate
  std::int64_t score_entries = 0;           ///< with sharing
  std::int64_t repeated_score_entries = 0;  ///< number of score entries if every sample were separate

  SharingSavings& operator+=(const SharingSavings& other) noexcept;
  friend bool operator==(const SharingSavings&, const SharingSavings&) = default;
};
/// Returns the savings of a tree. O(segments + samples).
[[nodiscard]] SharingSavings sharing_savings(const PrefixTree& tree);

/// A tree in one packed micro-batch: its segments back to back, depth-first, each aligned and cut over the CP
/// ranks separately, as in PackedPrefixLayout for trees with one level. Tokens are packed, cut and merged
/// with segments(), whose ragged rows are the rows of tree(). A value type.
///
/// Example: the tree `1 2 | 3 | 4 | 5 6 | 7` with alignment 4 and cp 2 takes 4 rows per segment, 2 of them on
/// each rank.
class PackedTreeLayout {
 public:
  /// Throws the errors of PackedLayout. O(segments).
  PackedTreeLayout(PrefixTree tree, std::int64_t alignment, CpGroup cp);
  /// Makes the layout of prefix groups as a tree with one level.
  explicit PackedTreeLayout(const PackedPrefixLayout& groups);
  /// Makes the layout of sequences that share nothing, with one root each, so that functions for trees can be
  /// used for them.
  explicit PackedTreeLayout(PackedLayout sequences);

  [[nodiscard]] const PrefixTree& tree() const noexcept { return tree_; }
  [[nodiscard]] const PackedLayout& segments() const noexcept { return segments_; }

  friend bool operator==(const PackedTreeLayout&, const PackedTreeLayout&) = default;

 private:
  PrefixTree tree_;
  PackedLayout segments_;
};

/// Writes the position ids of one CP rank's rows: every segment counts from its depth; pad rows continue
/// counting. `out` has segments().local_rows() elements.
void derive_position_ids(const PackedTreeLayout& layout, CpRank rank, std::span<std::int64_t> out);

/// Returns the ancestor intervals of one CP rank's rows, including pad rows. The numbers are the same on all
/// ranks, so queries of one rank can be compared with keys of any rank: concatenate the ranks' lists in the
/// order in which an all-gather arranges their keys. Queries do not see pad rows. A pad row sees its own
/// segment and those before it, so a row's softmax is never empty. O(local rows).
[[nodiscard]] AncestorIntervals ancestor_intervals(const PackedTreeLayout& layout, CpRank rank);

/// Returns the arguments of a varlen attention kernel on one CP rank; see PrefixAttentionPlan. The keys of a
/// run are the rows of all segments before it, then those of its own segment. O(sum of the segments' path
/// lengths).
[[nodiscard]] PrefixAttentionPlan plan_prefix_attention(const PackedTreeLayout& layout, CpRank rank);

/// One step of a depth-first schedule: an operation on a piece of a tree (a run of rows of one segment) while
/// the pieces before it on its path are open.
struct TreeStep {
  enum class Kind : std::uint8_t {
    push,   ///< opens the piece: runs forward, and keeps only its keys and values
    visit,  ///< runs forward, and keeps all data for the backward pass; opens the piece unless it was pushed
    pop,    ///< runs backward, for its own losses and its keys' and values' gradients; closes the piece
  };

  Kind kind = Kind::visit;
  std::int64_t piece = 0;

  friend constexpr bool operator==(TreeStep, TreeStep) = default;
};

/// How a trainer runs a packed tree depth first, with one path in memory at a time. Pieces are numbered in
/// the order of their rows, which they cover without gaps. Every piece is visited and popped once. A piece
/// with descendants is pushed first if the cap leaves no room to keep the data of its visit; its rows are
/// computed twice. In each step, the open pieces are the path to the step's piece, so their keys and values
/// form a stack: rows attend to its first keys_before[piece] entries, and to those of their own piece. Every
/// pop adds gradients to the keys and values of the pieces before it; these gradients are complete when those
/// pieces are popped.
///
/// All numbers are local rows of a CP rank, including pad rows, and the same on all ranks of the group.
///
/// Example: the tree `1 2 | 3 | 4 | 5 6 | 7` with at most 2 rows kept has pieces [0,2) [2,3) [3,4) [4,6)
/// [6,7), keys_before 0 2 3 3 2, and steps push 0, push 1, visit 2, pop 2, visit 3, pop 3, visit 1, pop 1,
/// visit 4, pop 4, visit 0, pop 0: at most 5 keys, 2 rows kept, and 3 rows computed twice.
struct DepthFirstSchedule {
  std::vector<RowRange> rows;             ///< rows of each piece
  std::vector<std::int64_t> parents;      ///< the piece before it; -1 if there is none
  std::vector<std::int64_t> keys_before;  ///< rows of all pieces before it on its path
  std::vector<TreeStep> steps;            ///< two or three per piece
  /// Maximum number of rows whose keys and values exist at once: the longest path.
  std::int64_t peak_keys = 0;
  std::int64_t peak_kept = 0;  ///< maximum number of rows that were visited but not yet popped
  /// Number of rows of pieces that are pushed, and therefore computed twice.
  std::int64_t recomputed = 0;

  friend bool operator==(const DepthFirstSchedule&, const DepthFirstSchedule&) = default;
};

/// Returns the schedule that keeps at most `max_kept` rows between visit and pop. If `max_kept` is unset,
/// there is no limit, and nothing is computed twice. Segments above the cap are cut, at multiples of the
/// alignment. The schedule is optimal in two ways. It holds no more keys at once than the longest path has,
/// and every order needs these for the last row of that path. If the alignment is one row, it also computes
/// as few rows twice as any schedule under the same cap. Throws InputError if max_kept is below the
/// alignment, or if it is set with several CP ranks, each of which would have different rows of a piece.
/// Local and deterministic. O(segments + pieces).
[[nodiscard]] DepthFirstSchedule depth_first_schedule(const PackedTreeLayout& layout,
                                                      std::optional<std::int64_t> max_kept = std::nullopt);

/// The order of the keys and values of all CP ranks when one rank's queries attend to them.
enum class KeyOrder : std::uint8_t {
  packed,    ///< as in the whole micro-batch: one segment after another (merge_cp_rows)
  gathered,  ///< as arranged by an all-gather: all rows of CP rank 0, then all of rank 1, and so on
};

/// The same mask in the forms used by attention kernels. The q queries are the local rows of one CP rank, and
/// the k keys are all rows of the micro-batch, both including pad rows. In all forms, a query sees the keys
/// defined by ancestor_intervals(). All functions are local, deterministic, and depend only on the layout;
/// all throw the errors of cp_runs().

/// The queries that see each key: query row r sees key i if and only if begin[i] <= r < end[i]. One interval
/// is enough, since rows are in depth-first order on every CP rank. FlashMask without `causal` takes (end,
/// begin) as the two columns of `startend_row_indices`: the first masked row below, and the end of the masked
/// rows above. A pad row's interval is empty: {0, 0}.
struct ColumnIntervals {
  std::vector<std::int32_t> begin;  ///< k elements
  std::vector<std::int32_t> end;

  friend bool operator==(const ColumnIntervals&, const ColumnIntervals&) = default;
};
/// Returns the intervals of all keys. O(k).
[[nodiscard]] ColumnIntervals column_intervals(const PackedTreeLayout& layout, CpRank rank, KeyOrder keys);

/// The size of the tiles into which a kernel cuts the mask.
struct TileSize {
  std::int64_t queries = 128;
  std::int64_t keys = 128;

  friend constexpr bool operator==(TileSize, TileSize) = default;
};

/// The tiles of the mask that a kernel must compute, for FlexAttention: the eight tensors of torch's
/// BlockMask, for one batch and one head, with m = ceil(q / tile.queries) and n = ceil(k / tile.keys). A tile
/// is full if every query in it sees every key in it, partial if only some do, and is omitted if none does.
/// Tiles that extend beyond the last query or key are never full. Indices are in ascending order, followed by
/// zeros after the counted ones.
struct BlockMask {
  std::int64_t query_tiles = 0;                  ///< m
  std::int64_t key_tiles = 0;                    ///< n
  std::vector<std::int32_t> kv_num_blocks;       ///< [m]: partial tiles of each row of tiles
  std::vector<std::int32_t> kv_indices;          ///< [m, n]
  std::vector<std::int32_t> full_kv_num_blocks;  ///< [m]
  std::vector<std::int32_t> full_kv_indices;     ///< [m, n]
  std::vector<std::int32_t> q_num_blocks;        ///< [n]: the same per column, for the backward pass
  std::vector<std::int32_t> q_indices;           ///< [n, m]
  std::vector<std::int32_t> full_q_num_blocks;   ///< [n]
  std::vector<std::int32_t> full_q_indices;      ///< [n, m]

  /// Returns the number of computed tiles, both partial and full.
  [[nodiscard]] std::int64_t num_computed_tiles() const noexcept;
  friend bool operator==(const BlockMask&, const BlockMask&) = default;
};
/// Returns the tiles of one CP rank's mask. Throws InputError if a dimension of `tile` is below 1. `reuse` is
/// a mask that is no longer needed. If it has memory for the same number of tiles, the result uses that
/// memory; otherwise, allocating memory takes most of the time. O(k + m * n).
[[nodiscard]] BlockMask block_mask(const PackedTreeLayout& layout, CpRank rank, KeyOrder keys,
                                   TileSize tile = {}, BlockMask reuse = {});

/// A rectangle of the mask, in the form of MagiAttention's `q_ranges`, `k_ranges` and `attn_type_map`.
struct AttentionSlice {
  enum class Kind : std::uint8_t {
    full = 0,    ///< every query sees every key
    causal = 1,  ///< the last query sees all keys, the previous one all but the last, and so on
  };

  RowRange queries;
  RowRange keys;
  Kind kind = Kind::full;

  friend constexpr bool operator==(const AttentionSlice&, const AttentionSlice&) = default;
};
/// Returns non-empty slices that do not overlap and together form the mask. O(segments * cp).
///
/// Example: the tree `1 2 | 3 | 4 | 5 6 | 7` without padding has one slice per segment (causal if the segment
/// has several rows) and two more full slices: queries [2, 7) with keys [0, 2), and queries [3, 6) with keys
/// [2, 3).
[[nodiscard]] std::vector<AttentionSlice> attention_slices(const PackedTreeLayout& layout, CpRank rank,
                                                           KeyOrder keys);

/// Returns a mask [q, k] to be added to scores: 0 where a query sees a key, minus infinity elsewhere. For
/// tests and small models, since it takes O(q * k).
[[nodiscard]] std::vector<float> additive_mask(const PackedTreeLayout& layout, CpRank rank, KeyOrder keys);

}  // namespace evenkeel
