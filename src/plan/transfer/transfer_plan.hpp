#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/base/grid.hpp"
#include "evenkeel/batch/field.hpp"
#include "evenkeel/pack/cp_layout.hpp"
#include "evenkeel/plan/length_table.hpp"
#include "plan/units/id_groups.hpp"
#include "plan/units/segments.hpp"

namespace evenkeel {

/// Who sends what where, from one rank's point of view: samples by EntryId, or segments by SegmentId. The
/// order in every list is that of the shares; it, and the order of fields and of rows_to_copy, is what sender
/// and receiver agree on without talking.
///
/// The sender needs only the shares: which micro-batch a sample lands in is its group's own business.
template <typename I>
struct TransferPlan {
  std::vector<std::vector<I>> to_group;    ///< one list a group: what this owner sends its members
  std::vector<std::vector<I>> from_owner;  ///< one list a world rank: what this consumer gets from it
};

/// Whose transfers these are: of rank `owner` as a sender and of place `consumer`, or none, as a receiver.
struct TransferEnds {
  WorldRank owner{0};
  DataPlace consumer{0};
  int num_owners = 1;  ///< ranks of the world
};

/// Of shares that `groups` get, one each. The union over all ranks moves every sample exactly once to each
/// place of its group. Pure; O(samples) time, O(samples of this rank) memory.
[[nodiscard]] TransferPlan<EntryId> plan_transfers(const LengthTable& table, const IdGroups<EntryId>& shares,
                                                   std::span<const ContextGroup> groups, TransferEnds ends);
/// The same for segments, which their entry's owner sends.
[[nodiscard]] TransferPlan<SegmentId> plan_transfers(const LengthTable& table, const SegmentTable& segments,
                                                     std::span<const ContextGroup> groups, TransferEnds ends);

/// The groups that each place is a member of, as numbers in the list of groups, in order.
class GroupsOfPlaces {
 public:
  struct Membership {
    std::size_t group = 0;
    CpRank member{0};
  };
  /// O(sum of the groups' sizes).
  explicit GroupsOfPlaces(std::span<const ContextGroup> groups);
  /// Precondition: place >= 0.
  [[nodiscard]] std::span<const Membership> of(DataPlace place) const noexcept;

 private:
  std::vector<std::vector<Membership>> of_place_;
};

/// One contiguous copy of a sample's field: rows `source` of the sample's rows at the owner become rows
/// [target, target + source.size()) of the sequence's local rows on the CP rank.
struct RowCopy {
  RowRange source;
  std::int64_t target = 0;

  friend constexpr bool operator==(const RowCopy&, const RowCopy&) = default;
};

/// At most two moves: a CP rank holds at most two runs of a sequence.
class RowCopies {
 public:
  void push_back(const RowCopy& move) noexcept { moves_[count_++] = move; }
  [[nodiscard]] const RowCopy* begin() const noexcept { return moves_.data(); }
  [[nodiscard]] const RowCopy* end() const noexcept { return moves_.data() + count_; }
  [[nodiscard]] std::size_t size() const noexcept { return count_; }

 private:
  std::array<RowCopy, 2> moves_{};
  std::size_t count_ = 0;
};

/// How a segment of a sample is cut for one CP rank.
struct SequenceCut {
  std::int64_t prompt = 0;          ///< of the sample
  std::int64_t length = 0;          ///< of the sample
  RowRange rows;                    ///< of the sample that the segment holds: all, or a part
  std::int64_t aligned_length = 0;  ///< of the segment
  CpGroup cp;
  CpRank rank{0};
};
/// Of a sample that is one segment.
[[nodiscard]] constexpr SequenceCut whole_cut(std::int64_t prompt, std::int64_t length,
                                              std::int64_t aligned_length, CpGroup cp, CpRank rank) noexcept {
  return {prompt, length, {0, length}, aligned_length, cp, rank};
}

/// The rows of a field of this kind that CP rank cut.rank gets, true rows only.
/// - token: row t of the sample stands at row t of the sequence (t - rows.begin where that is a part).
/// - response_token: the row of response token t stands where that token is predicted, at row t-1, like
/// labels and loss
///   mask; a response that starts the sequence has no such row for its first token, which stays behind.
/// - sample: one row, target 0, to every CP rank.
/// Precondition: the kind is not counted; such rows are not cut.
[[nodiscard]] RowCopies rows_to_copy(FieldKind kind, const SequenceCut& cut);

/// The `reach` tokens right after each run that rows_to_copy(token) has, as far as the segment has them, as
/// source rows: what labels, and tokens ahead of them, need where a run ends inside the segment. Targets are
/// places of which each run has `reach`; a run that ends its sequence has no entry.
[[nodiscard]] RowCopies halo_to_copy(const SequenceCut& cut, std::int64_t reach = 1);

/// The first `reach` tokens of a segment, as source rows, if the CP rank does not hold them one after the
/// other: what labels of rows in front of it need, and tokens ahead of them. With a reach of 1 only if it
/// holds the row in front. `before` is the segment that ends there, of the same sample and on the same rank;
/// neither is empty.
[[nodiscard]] RowCopies branch_to_copy(const SequenceCut& before, const SequenceCut& cut,
                                       std::int64_t reach = 1);

}  // namespace evenkeel
