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

/// The transfers of one rank: samples by EntryId, or segments by SegmentId. Every list is in the order of the
/// shares, which list the ids of each group. Sender and receiver rely on this order, and on the order of
/// fields and of rows_to_copy(), without communicating.
///
/// The sender needs only the shares; only the receiving group knows which micro-batch contains a sample.
template <typename I>
struct TransferPlan {
  std::vector<std::vector<I>> to_group;    ///< by group: ids that this owner sends to the group's members
  std::vector<std::vector<I>> from_owner;  ///< by world rank: ids that this consumer gets from that owner
};

/// The roles of one rank in transfers: it sends as world rank `owner`, and receives as place `consumer`, or
/// does not receive if that place is not in any group.
struct TransferEnds {
  WorldRank owner{0};
  DataPlace consumer{0};
  int num_owners = 1;  ///< number of world ranks
};

/// Plans the transfers of samples; group g gets the entries shares[g]. Over all ranks, the plans move every
/// sample exactly once to each place of its group. Pure; O(samples) time, O(samples of this rank) memory.
[[nodiscard]] TransferPlan<EntryId> plan_transfers(const LengthTable& table, const IdGroups<EntryId>& shares,
                                                   std::span<const ContextGroup> groups, TransferEnds ends);
/// Plans the transfers of segments; group g gets segments.segments_by_group()[g]. A segment is sent by the
/// owner of its entry (Segment::entry).
[[nodiscard]] TransferPlan<SegmentId> plan_transfers(const LengthTable& table, const SegmentTable& segments,
                                                     std::span<const ContextGroup> groups, TransferEnds ends);

/// For each place (DataPlace): the groups to which it belongs.
class GroupsOfPlaces {
 public:
  struct Membership {
    std::size_t group = 0;
    CpRank member{0};
  };
  /// Indexes the groups by place. O(sum of the groups' sizes).
  explicit GroupsOfPlaces(std::span<const ContextGroup> groups);
  /// Returns a place's memberships; empty if it is not in any group. Precondition: place >= 0.
  [[nodiscard]] std::span<const Membership> memberships_of(DataPlace place) const noexcept;

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

/// A list of at most two copies, since a CP rank holds at most two runs of a sequence.
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

/// The part of a sample's segment that one CP rank receives.
struct SequenceCut {
  std::int64_t prompt = 0;  ///< length of the prompt of the whole sample
  std::int64_t length = 0;  ///< length of the whole sample
  RowRange rows;            ///< the sample's rows that form the segment
  /// Rows of the segment over the whole CP group, including alignment or padding.
  std::int64_t aligned_length = 0;
  CpGroup cp;
  CpRank rank{0};
};

/// Returns the rows, without padding, of a field of this kind that CP rank cut.rank gets:
/// - token: row t of the sample goes to row t - rows.begin of the sequence.
/// - response_token: the row of token t goes to row t-1, which predicts that token, as for labels and loss
///   masks. The first response token of a sample without a prompt has no such row, and its row is not copied.
/// - sample: one row with target 0, to every CP rank.
/// Precondition: the kind is not counted.
[[nodiscard]] RowCopies rows_to_copy(FieldKind kind, const SequenceCut& cut);

/// Returns the halo: the source rows of the `reach` tokens after each run of rows_to_copy(token), limited to
/// the segment. They are needed for labels, and for predictions of tokens further ahead, if a run ends inside
/// the segment. Run i has the targets [i * reach, (i + 1) * reach); a run that ends its segment has no entry.
[[nodiscard]] RowCopies halo_to_copy(const SequenceCut& cut, std::int64_t reach = 1);

/// Returns the source rows of the first `reach` tokens of the segment `cut`, if the CP rank does not hold
/// them consecutively. They are needed for the labels of the last rows of `before`, and for predictions
/// further ahead. With a reach of 1, returns rows only if the rank holds the last row of `before`. `before`
/// is the preceding segment of the same sample, cut for the same rank; neither segment is empty.
[[nodiscard]] RowCopies branch_to_copy(const SequenceCut& before, const SequenceCut& cut,
                                       std::int64_t reach = 1);

}  // namespace evenkeel
