#pragma once

#include <cstdint>
#include <vector>

#include "evenkeel/pack/packed_layout.hpp"
#include "evenkeel/pack/prefix/packed.hpp"

namespace evenkeel {

/// How the rows of one packed micro-batch, including pad rows, are distributed over the ranks of its group.
/// Every rank has the same number of rows, in the order of the micro-batch. If layers of a model need
/// different cuts, as attention and linear attention do, rows are moved between them (row_route). The
/// micro-batch itself is in the cut of its layout, which is zigzag or contiguous.
enum class RowCut : std::uint8_t {
  zigzag,  ///< each sequence in 2*cp chunks, two on each rank (CpLayout::zigzag), for equal work in attention
  contiguous,  ///< each sequence in cp parts, in order (CpLayout::contiguous)
  flat,  ///< the whole micro-batch in cp parts, in order, regardless of sequences: most sequences are on
         ///< a single rank, so few states cross (flash-linear-attention's context parallelism)
};

/// The part of a CP rank's rows that a rank has if sequence parallelism cuts them into `size` equal parts, in
/// order; all rows if `size` is 1.
struct SequenceParallel {
  int rank = 0;
  int size = 1;

  friend constexpr bool operator==(SequenceParallel, SequenceParallel) = default;
};

/// One rank of the group in which rows move: one of the CP ranks or, with sequence parallelism, one of the tp
/// * cp ranks, which are numbered cp_rank * tp.size + tp.rank.
struct RowMember {
  CpRank cp_rank{0};
  SequenceParallel tp = {};

  [[nodiscard]] constexpr int number() const noexcept { return cp_rank.value() * tp.size + tp.rank; }
  friend constexpr bool operator==(RowMember, RowMember) = default;
};

/// Rows that move between the members of a group, from the point of view of one member. It can be used for an
/// all-to-all with given counts (MPI_Alltoallv, torch's all_to_all_single): gather `send_rows`, exchange, and
/// write the received rows to `receive_rows`. Rows that stay are sent to oneself. Rows that go from one
/// member to another keep their order, so both sides agree without communicating.
template <typename Integer = std::int64_t>
struct RowRoute {
  std::vector<Integer> send_rows;    ///< local rows, starting with those for member 0
  std::vector<Integer> send_counts;  ///< number of rows to send to each member
  /// Destinations of the received rows, starting with those from member 0.
  std::vector<Integer> receive_rows;
  std::vector<Integer> receive_counts;  ///< number of rows to receive from each member

  /// Returns the route back, which is also the route of gradients.
  [[nodiscard]] RowRoute reversed() const { return {receive_rows, receive_counts, send_rows, send_counts}; }
  friend bool operator==(const RowRoute&, const RowRoute&) = default;
};

/// Returns the route from one cut of a micro-batch to another, for one member: `send_rows` and `receive_rows`
/// are permutations of its local_rows() / tp.size rows, and its rows in the new cut are out[receive_rows[i]]
/// = received[i]. Reversed, it is the route from `to` to `from`. A tree's route is that of its segments().
/// Integer: int32 or int64. Local. Throws InputError if the member is not in the group, if tp does not divide
/// local_rows(), or if a sequence cannot be cut into equal chunks (align to 2*cp*tp for zigzag). O(b * cp *
/// tp + rows of the member).
///
/// `spare` is any route that is no longer needed; its memory is reused. Otherwise, a route of 20,000 rows
/// needs new pages from the operating system, which takes several times as long as computing the route.
///
/// Example: sequences of 8 rows and of 4, cp 2. In zigzag, rank 0 has rows 0 1 6 7 of the first and 0 3 of
/// the second. To flat, rank 0 sends its rows 0 1 to itself and 2 3 4 5 to rank 1; it receives rows 2 3 4 5
/// from rank 1 and has 0 1 2 3 4 5.
template <typename Integer = std::int64_t>
[[nodiscard]] RowRoute<Integer> row_route(const PackedLayout& layout, RowCut from, RowCut to,
                                          RowMember member, RowRoute<Integer> spare = {});

/// Rows of one sequence (or segment of a tree) that are consecutive both in it and on one member, as many as
/// possible. In a recurrent layer, the run needs the state after the last token before it.
struct SequenceRun {
  std::int64_t sequence = 0;  ///< number of the sequence in the layout
  RowRange rows;              ///< rows on the member, including pad rows
  std::int64_t first = 0;     ///< row of the sequence at which the run begins; 0 if the sequence begins here
  std::int64_t tokens = 0;    ///< number of true rows, which come first
  /// The origin of the state with which it begins: run `run_before` of member `member_before`, after all
  /// tokens of that run, the last of which is row `row_before` there. All are -1 if the state begins with
  /// zero: at the first token of a sequence or of a tree's root, and in runs without tokens. If a segment
  /// begins here, that run belongs to the preceding segment in its samples (`sequence_before`), or to an
  /// earlier one if the segments in between are empty.
  int member_before = -1;
  std::int64_t run_before = -1;
  std::int64_t row_before = -1;
  std::int64_t sequence_before = -1;

  friend bool operator==(const SequenceRun&, const SequenceRun&) = default;
};

/// Returns the runs of a member's rows in this cut, in order. Together they contain all its rows, so kernels
/// can use the ends of `rows` as cu_seqlens. In a flat cut, states never come from a later run or member. In
/// a contiguous cut, only a tree's segments may begin with such states: they begin on the first CP rank, and
/// the tokens before them may end on a later one. Throws the errors of row_route(). O(b * cp * tp).
///
/// Example: sequences of 4, 8 and 4 rows, cp 2, flat: rank 0 has rows [0, 4) of sequence 0 and [4, 8) of
/// sequence 1; rank 1 has [0, 4) of sequence 1, whose state is that of run 1 of member 0, and [4, 8) of
/// sequence 2.
[[nodiscard]] std::vector<SequenceRun> sequence_runs(const PackedLayout& layout, RowCut cut,
                                                     RowMember member);
/// Same as the other sequence_runs(), but for the segments of a tree: siblings begin with the state of the
/// same run.
[[nodiscard]] std::vector<SequenceRun> sequence_runs(const PackedTreeLayout& layout, RowCut cut,
                                                     RowMember member);

/// Returns the route of the tokens before each run of a member, for causal convolutions of this width:
/// `receive_rows` are places in a tensor of zeros with width-1 rows for each of sequence_runs(), oldest
/// first, and `send_rows` are rows of tensors in this cut, which several members may need. Places before a
/// sequence's first token, and those of runs without tokens, are not filled. Reversed, it is the route of
/// gradients, which are then added up. Throws the errors of row_route(), and InputError if the width is below
/// 1 or so large that places exceed Integer. O(b * cp * tp * (width + log(cp * tp))); a tree also walks up
/// its paths.
template <typename Integer = std::int64_t>
[[nodiscard]] RowRoute<Integer> halo_route(const PackedLayout& layout, RowCut cut, RowMember member,
                                           std::int64_t width);
template <typename Integer = std::int64_t>
[[nodiscard]] RowRoute<Integer> halo_route(const PackedTreeLayout& layout, RowCut cut, RowMember member,
                                           std::int64_t width);

}  // namespace evenkeel
