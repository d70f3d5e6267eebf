#pragma once

#include <cstdint>
#include <vector>

#include "evenkeel/pack/packed_layout.hpp"
#include "evenkeel/pack/prefix/packed.hpp"

namespace evenkeel {

/// How the rows of one packed micro-batch, pad rows included, are spread over the ranks of its group. Every
/// rank has equally many, in the order of the micro-batch. Models whose layers need different cuts, such as
/// attention and linear attention, move rows between them (row_route). The micro-batch itself comes in the
/// cut of its layout, which is zigzag or contiguous.
enum class RowCut : std::uint8_t {
  zigzag,      ///< each sequence in 2*cp chunks, two on each rank (CpLayout::zigzag): equal work in attention
  contiguous,  ///< each sequence in cp parts, in order (CpLayout::contiguous)
  flat,  ///< the whole micro-batch in cp parts, in order, wherever sequences begin: most sequences are on
         ///< one rank, so that few states cross (flash-linear-attention's context parallelism)
};

/// The cut that a micro-batch with this layout comes in.
[[nodiscard]] constexpr RowCut row_cut_of(CpLayout layout) noexcept {
  return layout == CpLayout::zigzag ? RowCut::zigzag : RowCut::contiguous;
}

/// Which part of a CP rank's rows a rank has where sequence parallelism cuts them into `size` equal parts, in
/// order. Size 1: all of them.
struct SequenceParallel {
  int rank = 0;
  int size = 1;

  friend constexpr bool operator==(SequenceParallel, SequenceParallel) = default;
};

/// One rank of the group in which rows move: the CP ranks or, with sequence parallelism, all tp * cp ranks,
/// numbered cp_rank * tp.size + tp.rank.
struct RowMember {
  CpRank cp_rank{0};
  SequenceParallel tp = {};

  [[nodiscard]] constexpr int number() const noexcept { return cp_rank.value() * tp.size + tp.rank; }
  friend constexpr bool operator==(RowMember, RowMember) = default;
};

/// Rows that move between the members of a group, as one of them sees it. It fits an all-to-all with given
/// counts (MPI_Alltoallv, torch's all_to_all_single): gather `send_rows`, exchange, and put what arrives at
/// `receive_rows`. Rows that stay are sent to oneself. Rows that go from one member to another keep their
/// order, so both sides agree without asking.
template <typename Integer = std::int64_t>
struct RowRoute {
  std::vector<Integer> send_rows;       ///< local rows, those for member 0 first
  std::vector<Integer> send_counts;     ///< how many of them each member gets
  std::vector<Integer> receive_rows;    ///< where the rows that arrive land, those of member 0 first
  std::vector<Integer> receive_counts;  ///< how many of them each member sends

  /// The way back, which gradients take, too.
  [[nodiscard]] RowRoute reversed() const { return {receive_rows, receive_counts, send_rows, send_counts}; }
  friend bool operator==(const RowRoute&, const RowRoute&) = default;
};

/// From one cut of a micro-batch to another, for one member: `send_rows` and `receive_rows` are permutations
/// of its rows, local_rows() / tp.size of them, and its rows in the new cut are out[receive_rows[i]] =
/// received[i]. Reversed, it is the route from `to` to `from`. A tree's route is that of its segments().
/// Integer: int32 or int64. Local. Throws InputError if the member is not in the group, if tp does not divide
/// local_rows(), or if a sequence cannot be cut into equal chunks (align to 2*cp*tp for zigzag). O(b * cp *
/// tp + rows of the member).
///
/// `spare` is any route that is no longer needed, whose memory is used again: that of 20,000 rows is fresh
/// pages from the operating system otherwise, which take several times as long as the route.
///
/// Example: sequences of 8 rows and of 4, cp 2. In zigzag, rank 0 has rows 0 1 6 7 of the first and 0 3 of
/// the second. To flat, rank 0 sends its rows 0 1 to itself and 2 3 4 5 to rank 1; it receives rows 2 3 4 5
/// from rank 1 and has 0 1 2 3 4 5.
template <typename Integer = std::int64_t>
[[nodiscard]] RowRoute<Integer> row_route(const PackedLayout& layout, RowCut from, RowCut to,
                                          RowMember member, RowRoute<Integer> spare = {});

/// Rows of one sequence (or segment of a tree) that follow each other in it and on one member, as many as
/// possible. In a recurrent layer it needs the state after the last token before it.
struct SequenceRun {
  std::int64_t sequence = 0;  ///< its number in the layout
  RowRange rows;              ///< on the member, pad rows included
  std::int64_t first = 0;     ///< which row of the sequence its first one is; 0: the sequence begins here
  std::int64_t tokens = 0;    ///< its true rows; the others follow them
  /// Whose state it begins with: run `run_before` of member `member_before`, after all tokens of that run,
  /// the last of which is row `row_before` there. All -1 if the state begins at zero: at the first token of a
  /// sequence or of a tree's root, and in runs without tokens. If a segment begins here, that run is of the
  /// segment before it in its samples (`sequence_before`), perhaps some segments up, if those between are
  /// empty.
  int member_before = -1;
  std::int64_t run_before = -1;
  std::int64_t row_before = -1;
  std::int64_t sequence_before = -1;

  friend bool operator==(const SequenceRun&, const SequenceRun&) = default;
};

/// The runs of a member's rows in this cut, in their order: together they are all its rows, so that kernels
/// take the ends of `rows` as cu_seqlens. In a flat cut no state comes from a later run or member; in a
/// contiguous one, only that of a tree's segment does, which begins on the first CP rank and continues one
/// that ends on the last. Throws as row_route does. O(b * cp * tp).
///
/// Example: sequences of 4, 8 and 4 rows, cp 2, flat: rank 0 has rows [0, 4) of sequence 0 and [4, 8) of
/// sequence 1; rank 1 has [0, 4) of sequence 1, whose state is that of run 1 of member 0, and [4, 8) of
/// sequence 2.
[[nodiscard]] std::vector<SequenceRun> sequence_runs(const PackedLayout& layout, RowCut cut,
                                                     RowMember member);
/// The same with segments that continue others: siblings begin with the state of the same run.
[[nodiscard]] std::vector<SequenceRun> sequence_runs(const PackedTreeLayout& layout, RowCut cut,
                                                     RowMember member);

/// The tokens before each run of a member, for causal convolutions of this width: `receive_rows` are places
/// in a tensor of zeros with width-1 rows for each of sequence_runs(), oldest first, and `send_rows` are rows
/// of tensors in this cut, which several members may need. Places before a sequence's first token, and those
/// of runs without tokens, get nothing. Reversed, it takes gradients back, to be added up. Throws as
/// row_route does, and if the width is below 1. O(b * cp * tp * (width + log(cp * tp))); a tree also walks up
/// its paths.
template <typename Integer = std::int64_t>
[[nodiscard]] RowRoute<Integer> halo_route(const PackedLayout& layout, RowCut cut, RowMember member,
                                           std::int64_t width);
template <typename Integer = std::int64_t>
[[nodiscard]] RowRoute<Integer> halo_route(const PackedTreeLayout& layout, RowCut cut, RowMember member,
                                           std::int64_t width);

}  // namespace evenkeel
