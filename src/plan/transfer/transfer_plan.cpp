#include "plan/transfer/transfer_plan.hpp"

#include <algorithm>

#include "evenkeel/base/assertions.hpp"

namespace evenkeel {
namespace {

// Returns the runs of rows, without padding, that a CP rank holds, each with the local row at which it
// starts.
RowCopies token_moves(const SequenceCut& cut) {
  RowCopies moves;
  std::int64_t local = 0;
  for (const RowRange run : cp_runs(cut.aligned_length, cut.cp, cut.rank)) {
    const RowRange true_rows{cut.rows.begin + run.begin, std::min(cut.rows.begin + run.end, cut.rows.end)};
    if (true_rows.begin < true_rows.end) moves.push_back({true_rows, local});
    local += run.size();
  }
  return moves;
}

RowCopies response_moves(const SequenceCut& cut) {
  RowCopies moves;
  for (const RowCopy& move : token_moves(cut)) {
    const std::int64_t first_token = std::max(move.source.begin + 1, cut.prompt);
    const std::int64_t end_token = std::min(move.source.end + 1, cut.length);
    if (first_token >= end_token) continue;
    moves.push_back({{first_token - cut.prompt, end_token - cut.prompt},
                     move.target + first_token - 1 - move.source.begin});
  }
  return moves;
}

template <typename I, typename OwnerOf>
TransferPlan<I> make_transfer_plan(const IdGroups<I>& shares, OwnerOf owner_of,
                                   std::span<const ContextGroup> groups, const TransferEnds& ends) {
  TransferPlan<I> plan;
  plan.to_group.resize(groups.size());
  plan.from_owner.resize(static_cast<std::size_t>(ends.num_owners));
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const bool receives = groups[g].contains(ends.consumer);
    for (const I id : shares[static_cast<std::int64_t>(g)]) {
      const WorldRank from = owner_of(id);
      if (from == ends.owner) plan.to_group[g].push_back(id);
      if (receives) plan.from_owner[from.index()].push_back(id);
    }
  }
  return plan;
}

}  // namespace

TransferPlan<EntryId> plan_transfers(const LengthTable& table, const IdGroups<EntryId>& shares,
                                     std::span<const ContextGroup> groups, TransferEnds ends) {
  return make_transfer_plan(
      shares, [&](EntryId entry) { return table[entry].owner; }, groups, ends);
}

TransferPlan<SegmentId> plan_transfers(const LengthTable& table, const SegmentTable& segments,
                                       std::span<const ContextGroup> groups, TransferEnds ends) {
  return make_transfer_plan(
      segments.segments_by_group(), [&](SegmentId s) { return table[segments[s].entry].owner; }, groups,
      ends);
}

GroupsOfPlaces::GroupsOfPlaces(std::span<const ContextGroup> groups) {
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::size_t first = groups[g].first.index();
    const auto size = static_cast<std::size_t>(groups[g].size);
    if (of_place_.size() < first + size) of_place_.resize(first + size);
    for (std::size_t member = 0; member < size; ++member)
      of_place_[first + member].push_back({g, CpRank{static_cast<int>(member)}});
  }
}

std::span<const GroupsOfPlaces::Membership> GroupsOfPlaces::memberships_of(DataPlace place) const noexcept {
  if (place.index() >= of_place_.size()) return {};
  return of_place_[place.index()];
}

RowCopies rows_to_copy(FieldKind kind, const SequenceCut& cut) {
  EVENKEEL_PRECONDITION(cheap, !is_counted(kind), name_of(kind));
  switch (rule_of(kind).rows_per) {
    case RowsPer::token:
      return token_moves(cut);
    case RowsPer::response_token:
      return response_moves(cut);
    case RowsPer::sample:
    case RowsPer::own_count:
      break;
  }
  RowCopies one_row;
  one_row.push_back({{0, 1}, 0});
  return one_row;
}

RowCopies halo_to_copy(const SequenceCut& cut, std::int64_t reach) {
  RowCopies halo;
  std::int64_t run = 0;
  for (const RowCopy& move : token_moves(cut)) {
    const std::int64_t end = std::min(move.source.end + reach, cut.rows.end);
    if (move.source.end < end) halo.push_back({{move.source.end, end}, run * reach});
    ++run;
  }
  return halo;
}

RowCopies branch_to_copy(const SequenceCut& before, const SequenceCut& cut, std::int64_t reach) {
  const RowCopies here = token_moves(before);
  const RowCopies there = token_moves(cut);
  const RowRange first{cut.rows.begin, std::min(cut.rows.begin + reach, cut.rows.end)};
  const bool predicts = reach > 1 || std::ranges::any_of(here, [&](const RowCopy& move) {
                          return move.source.end == before.rows.end;
                        });
  const bool has_tokens = std::ranges::any_of(there, [&](const RowCopy& move) {
    return move.source.begin == first.begin && move.source.end >= first.end;
  });
  RowCopies halo;
  if (predicts && !has_tokens) halo.push_back({first, 0});
  return halo;
}

}  // namespace evenkeel
