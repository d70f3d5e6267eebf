#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/balance/bin_packing.hpp"
#include "evenkeel/balance/partition.hpp"
#include "evenkeel/cost/cost_model.hpp"

namespace evenkeel::context {

/// The problem of scheduling items on groups of ranks, for example sequences with context parallelism. The
/// members are views; their data must outlive this object.
struct Problem {
  /// Work of each item.
  std::span<const ContextWork> items{};
  /// Number of samples of each item; empty if all are 1.
  std::span<const std::int64_t> counts{};
  /// Tokens of all sequences, ordered by item; each sequence is aligned separately. Item i consists of
  /// sequences [offsets[i], offsets[i + 1]); if `offsets` is empty, each item is one sequence.
  std::span<const std::int64_t> lengths{};
  std::span<const std::int64_t> offsets{};
  /// Alignments by group size, up to max_size: in a group of g ranks, the length of a sequence is rounded up
  /// to a multiple of alignments[g]. alignments[0] is unused.
  std::span<const std::int64_t> alignments{};

  std::int64_t ranks = 1;
  /// Maximum size of groups, 1 .. ranks. Sizes are powers of two, and a group's first rank is a multiple of
  /// its size.
  std::int64_t max_size = 1;
  /// Limits of a micro-batch. max_size is the maximum number of aligned tokens per rank, so a group of g
  /// ranks can hold g times as many. max_items is the maximum number of samples in the whole micro-batch.
  BinLimits limits;
  CommunicationCost communication;
  /// Speed of each rank in any common unit, 1 to 2^31; empty if all are equal. Members of a group wait for
  /// each other, so a group takes as long as its slowest member. The fastest rank does 1 unit of work per
  /// unit of time.
  std::span<const std::int64_t> speeds{};

  [[nodiscard]] std::int64_t count_of(Item item) const {
    return counts.empty() ? 1 : counts[static_cast<std::size_t>(item)];
  }
  /// Returns the number of aligned tokens of an item in a group of `size` ranks.
  [[nodiscard]] std::int64_t aligned_size(Item item, std::int64_t size) const;
};

/// A micro-batch of a schedule; ranks first .. first + size - 1 run it together.
struct Task {
  std::int64_t first = 0;
  std::int64_t size = 1;
  /// Index of the task's wave if ranks synchronize after every micro-batch, as in schedule_waves(); otherwise
  /// -1.
  std::int64_t wave = -1;
  std::int64_t tokens = 0;
  std::int64_t aligned_tokens = 0;  ///< number of tokens after alignment for the group's size
  Cost time = 0;                    ///< time for which each rank of the group is busy

  friend constexpr bool operator==(const Task&, const Task&) = default;
};

/// The micro-batches of all groups. Every rank runs its tasks in the order of this list.
struct Schedule {
  std::vector<Task> tasks;
  Partition items;         ///< items of each task, ascending; no task is empty
  std::int64_t waves = 0;  ///< number of waves if ranks synchronize after every micro-batch; otherwise 0
  Cost end = 0;            ///< time at which the last rank finishes the last micro-batch

  friend bool operator==(const Schedule&, const Schedule&) = default;
};

/// Returns a lower bound on the end of any schedule, whether ranks synchronize only at the end or after every
/// micro-batch; 0 without items. It is the maximum of:
/// - the longest time of any item on its best group, on the fastest ranks;
/// - the smallest limit T for which ranks * T is at least the sum of all work, overheads and exposed
///   communication, if each item may only run on groups on which it alone takes at most T. (This is the dual
///   of Hochbaum and Shmoys, 1987, for items whose work grows with their groups.) In addition, a search
///   checks that the five largest items fit in blocks of ranks within T, since only a few choices of groups
///   for these items may leave enough room.
///
/// If speeds differ, ranks * T is replaced by the work that all ranks can do within T: the sum of their
/// speeds over the fastest speed, times T. The bound is then valid for the following reasons:
/// 1. Let v be the speed of a rank over the fastest speed. A micro-batch has work W, exposed communication E
///    and overhead O. On g ranks whose slowest rank has v = v', it takes a time t >= (W + E + g O) / (g v').
/// 2. Each of its ranks could do work v t in that time; count the difference as wasted. Together, the ranks
///    could do t times the sum of their v, which is at least r (W + E + g O), where r is that sum over g v'.
///    r >= 1, since every v >= v'.
/// 3. Let R be the smallest r of any group of g ranks. Then the ranks could do at least R W + E + g O.
/// 4. Each rank is busy for at most T, so the sum over all micro-batches is at most the sum of v T over all
///    ranks.
/// 5. So the bound may count R times the work of an item on a group of g ranks. It assumes that each item
///    runs on the groups for which this count is smallest.
///
/// In the search, a large item keeps each of the g ranks of its block busy for 1/g of the amount that the
/// bound counts for it. This is at most t times the mean v of the block, and therefore at most t, since every
/// v <= 1.
///
/// Overheads are counted for the minimum number of groups required by tokens, samples and T. Communication is
/// counted after subtracting the part hidden by the attention of the items in the same micro-batch. Since it
/// is unknown which items share a micro-batch, the bound is the maximum of the following sum over all group
/// sizes s, and over not pooling at all:
/// - The exposed communication of groups of size s or more is pooled over all items.
/// - The exposed communication of smaller groups is counted per item. For an item above half of the group's
///   cap, the part that the other items in its micro-batch cannot hide is counted. If no possible companion
///   of an item can hide any communication, all of the item's communication is counted. Otherwise, its
///   communication is not counted.
///
/// Precondition: require_schedulable() passes. Integers only. O(items * sizes), and less for short items.
[[nodiscard]] Cost lower_bound(const Problem& problem);

/// Throws LimitError naming the first item that does not fit in any group, with its size in the largest
/// group. Throws InputError for inconsistent lists, negative numbers, an attention above the item's work,
/// speeds out of range, and sums or times of the slowest rank that reach 2^62. O(items).
void require_schedulable(const Problem& problem);

}  // namespace evenkeel::context
