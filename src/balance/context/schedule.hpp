#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/balance/bin_packing.hpp"
#include "evenkeel/balance/partition.hpp"
#include "evenkeel/cost/cost_model.hpp"

namespace evenkeel::context {

/// Items that are run by one or more of `ranks` ranks each, as context parallelism does with sequences.
/// Views: what they look at must outlive it.
struct Problem {
  /// One an item.
  std::span<const ContextWork> items{};
  /// Samples of an item; empty: 1 each.
  std::span<const std::int64_t> counts{};
  /// Tokens of every sequence, item after item: each is aligned on its own. Item i has those from offsets[i]
  /// up to offsets[i + 1]; no offsets: one each.
  std::span<const std::int64_t> lengths{};
  std::span<const std::int64_t> offsets{};
  /// What a sequence's length is rounded up to a multiple of in a group of g ranks: alignments[g], for each
  /// size up to max_size. (alignments[0] means nothing.)
  std::span<const std::int64_t> alignments{};

  std::int64_t ranks = 1;
  /// Limits the size of groups, which are powers of two: 1 .. ranks. A group's first rank is a multiple of
  /// its size.
  std::int64_t max_size = 1;
  /// Of a micro-batch: max_size are aligned tokens a rank, so that a group of g holds g times that; max_items
  /// are samples of the whole group.
  BinLimits limits;
  CommunicationCost communication;
  /// How fast each rank is, in any one unit, 1 to 2^31; empty: all alike. Members of a group wait for each
  /// other, so that it takes as long as its slowest one. Times are in units of the fastest rank's.
  std::span<const std::int64_t> speeds{};

  [[nodiscard]] std::int64_t count_of(Item item) const {
    return counts.empty() ? 1 : counts[static_cast<std::size_t>(item)];
  }
  /// Aligned tokens of an item in a group of `size` ranks.
  [[nodiscard]] std::int64_t aligned_size(Item item, std::int64_t size) const;
};

/// A micro-batch of a schedule: ranks first .. first + size - 1 run it together.
struct Task {
  std::int64_t first = 0;
  std::int64_t size = 1;
  std::int64_t wave = -1;  ///< when it runs, where ranks meet at every micro-batch; else -1
  std::int64_t tokens = 0;
  std::int64_t aligned_tokens = 0;  ///< as they are in a group of its size
  Cost time = 0;                    ///< how long its ranks take

  friend constexpr bool operator==(const Task&, const Task&) = default;
};

/// Which group runs which items together. Tasks stand in the order in which every rank runs those of them
/// that it has a part in.
struct Schedule {
  std::vector<Task> tasks;
  Partition items;         ///< one group a task, ascending, none empty
  std::int64_t waves = 0;  ///< where ranks meet at every micro-batch; else 0
  Cost end = 0;            ///< when the last rank is done

  friend bool operator==(const Schedule&, const Schedule&) = default;
};

/// No schedule ends before, neither where ranks meet at the end only nor where they meet at every
/// micro-batch. 0 for no items. The largest of
/// - the least time of any one item on its best group, on the fastest ranks;
/// - the least limit T for which ranks * T holds all work, overheads and exposed communication, if no item
///   is on a group on which it alone takes longer than T. (The dual of Hochbaum and Shmoys, 1987, for items
///   whose work grows with their groups.) The five largest items, which few choices of groups may leave room
///   for, also need blocks of ranks that hold them within T, which is searched.
///
/// Where speeds differ, ranks * T is what all ranks do within T: the sum of their speeds over the fastest,
/// times T. The proof: let v be the speed of a rank over the fastest one's. A micro-batch of work W, exposed
/// communication E and the overhead O on g ranks, the slowest of which has v', takes t, at least
/// (W + E + g O) / (g v'). Each of its ranks could do v t meanwhile; let them all waste what they do not do
/// of that. Together they could do t times the sum of their v, and so at least r (W + E + g O), where r is
/// that sum over g v'. That is 1 or more, since none has less than v'. It is not below R, the least r of any
/// group of g ranks; so what they could do is at least R W + E + g O. Each rank is busy for no longer than T;
/// summed over all micro-batches this is at most the sum of v T over all ranks. So an item may count R times
/// its work on a group of g ranks, of which it takes those on which it counts least. (The largest items are
/// held by blocks of ranks where they count as much, over g, as these ranks would do in a mean one's time,
/// which is no more than the block's time, as the fastest rank has v = 1.)
///
/// Overheads are those of as many groups as tokens and samples need at least, and as T needs. Communication
/// counts as what remains of it once the attention of all its micro-batch's items is taken off; since nobody
/// knows who will share a micro-batch, it is the most of what each of these gives: none at all; that of
/// groups from some size on pooled over all items; and for smaller groups, of an item above half of their
/// cap, what no company that fits beside it can hide, and all of an item beside which nobody fits who hides
/// any.
///
/// Precondition: require_fits passes. Integers only. O(items * sizes), and less for short ones.
[[nodiscard]] Cost lower_bound(const Problem& problem);

/// Throws LimitError that names the first item that fits no group, with its size in the largest one;
/// InputError for lists that do not belong together, negative numbers, attention above the work that it is a
/// part of, speeds out of range, and sums that reach 2^62, also of what the slowest rank would take.
/// O(items).
void require_fits(const Problem& problem);

}  // namespace evenkeel::context
