#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/pack/row_routes.hpp"
#include "pack/arbitrary.hpp"

namespace evenkeel::test {

inline constexpr RowCut all_cuts[] = {RowCut::zigzag, RowCut::contiguous, RowCut::flat};

inline std::vector<RowMember> members_of(const PackedLayout& layout, int tp) {
  std::vector<RowMember> members;
  for (const CpRank rank : all_ranks(layout.cp()))
    for (int t = 0; t < tp; ++t) members.push_back({rank, {t, tp}});
  return members;
}

/// One value per row of a micro-batch.
using RowValues = std::vector<std::int64_t>;
/// The values of each member's rows.
using MemberValues = std::vector<RowValues>;

/// Returns what the members of a group receive, in tensors of these numbers of rows, initialized with zeros.
inline MemberValues exchanged(const MemberValues& from, std::span<const RowRoute<>> routes,
                              std::span<const std::int64_t> rows) {
  const std::size_t size = from.size();
  std::vector<MemberValues> messages(size, MemberValues(size));  // by receiver, then by sender
  for (std::size_t s = 0; s < size; ++s) {
    auto next = routes[s].send_rows.begin();
    for (std::size_t r = 0; r < size; ++r)
      for (std::int64_t i = 0; i < routes[s].send_counts[r]; ++i)
        messages[r][s].push_back(from[s].at(static_cast<std::size_t>(*next++)));
  }
  MemberValues to;
  for (std::size_t r = 0; r < size; ++r) {
    RowValues& out = to.emplace_back(static_cast<std::size_t>(rows[r]));
    auto next = routes[r].receive_rows.begin();
    for (std::size_t s = 0; s < size; ++s) {
      RC_ASSERT(std::ssize(messages[r][s]) == routes[r].receive_counts[s]);
      for (const std::int64_t value : messages[r][s]) out.at(static_cast<std::size_t>(*next++)) = value;
    }
    RC_ASSERT(next == routes[r].receive_rows.end());
  }
  return to;
}

/// Returns the rows of the whole micro-batch that each member has, from the definitions that peers publish:
/// Megatron-LM views a sequence as 2*cp chunks of equal length and takes chunks r and 2*cp-1-r, Transformer
/// Engine does so for each packed sequence of its padded cumulative lengths; Ulysses takes the rth of cp
/// chunks; flash-linear-attention the rth part of all rows. Sequence parallelism takes the tth of tp parts of
/// that.
inline MemberValues rows_by_definition(const PackedLayout& layout, RowCut cut, int tp) {
  const std::int64_t cp = layout.cp().size;
  MemberValues members;
  for (std::int64_t r = 0; r < cp; ++r) {
    RowValues rows;
    const auto take = [&](std::int64_t begin, std::int64_t length, std::int64_t chunks, std::int64_t chunk) {
      const std::int64_t size = length / chunks;
      for (std::int64_t i = 0; i < size; ++i) rows.push_back(begin + chunk * size + i);
    };
    if (cut == RowCut::flat) take(0, layout.num_rows(), cp, r);
    for (std::int64_t s = 0; s < layout.size() && cut != RowCut::flat; ++s) {
      const std::int64_t begin = layout.cu_seqlens_padded()[static_cast<std::size_t>(s)];
      const std::int64_t length = layout.aligned_length(s);
      if (cut == RowCut::contiguous || cp == 1) {
        take(begin, length, cp, r);
      } else {
        take(begin, length, 2 * cp, r);
        take(begin, length, 2 * cp, 2 * cp - 1 - r);
      }
    }
    const auto part = std::ssize(rows) / tp;
    for (std::int64_t t = 0; t < tp; ++t)
      members.emplace_back(rows.begin() + t * part, rows.begin() + (t + 1) * part);
  }
  return members;
}

/// Sequences in a layout that can be split in all ways over cp 1 to 16 and tp 1 to 4, sometimes padded to a
/// total, a shape or one length.
struct CutLayout {
  PackedLayout layout;
  int tp = 1;
};
inline CutLayout arbitrary_cut_layout() {
  const CpGroup cp{*rc::gen::inRange(1, 17), *rc::gen::element(CpLayout::zigzag, CpLayout::contiguous)};
  const int tp = *rc::gen::inRange(1, 5);
  const std::int64_t alignment = 2 * std::int64_t{cp.size} * tp * *rc::gen::inRange<std::int64_t>(1, 3);
  const Lengths lengths = arbitrary_lengths();
  const PackedLayout layout(lengths, alignment, cp);
  switch (*rc::gen::inRange(0, 4)) {
    case 0:
      if (layout.size() > 0) return {layout.padded_to(layout.num_rows() + 2 * alignment), tp};
      break;
    case 1:
      return {layout.with_shape({layout.local_rows() + 3 * alignment / cp.size, layout.size() + 5,
                                 std::max<std::int64_t>(layout.max_seqlen(), alignment), cp.size}),
              tp};
    case 2:
      return {PackedLayout(lengths, Lengths(lengths.size(), align_up(80, alignment)), alignment, cp), tp};
    default:
      break;
  }
  return {layout, tp};
}

}  // namespace evenkeel::test
