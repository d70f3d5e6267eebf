#include "pack/routes/cut_rows.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

void require_member(const PackedLayout& layout, RowMember member) {
  const int cp = layout.cp().size;
  if (member.tp.size < 1)
    throw InputError("tensor-parallel size",
                     "is " + std::to_string(member.tp.size) + "; it must be at least 1");
  const auto require_inside = [](int rank, int size, const char* what) {
    if (rank >= 0 && rank < size) return;
    throw InputError(what,
                     "is " + std::to_string(rank) + "; it must be from 0 to " + std::to_string(size - 1));
  };
  require_inside(member.cp_rank.value(), cp, "context-parallel rank");
  require_inside(member.tp.rank, member.tp.size, "tensor-parallel rank");
  if (member.tp.size > std::numeric_limits<int>::max() / cp) {
    throw InputError("tensor-parallel size", std::to_string(member.tp.size) +
                                                 " times the context-parallel size, " + std::to_string(cp) +
                                                 ", exceeds the limit of " +
                                                 std::to_string(std::numeric_limits<int>::max()));
  }
  if (layout.local_rows() % member.tp.size == 0) return;
  throw InputError("sequence-parallel cut",
                   "the " + format_plain_count(layout.local_rows(), "row") +
                       " of a context-parallel rank cannot be cut into " + std::to_string(member.tp.size) +
                       " equal parts",
                   "Align every sequence to a multiple of cp * tp");
}

}  // namespace

CutRows::CutRows(const PackedLayout& layout, RowCut cut, RowMember of) {
  require_member(layout, of);
  members_ = layout.cp().size * of.tp.size;
  first_run_.reserve(static_cast<std::size_t>(layout.size()) + 1);
  runs_.reserve(static_cast<std::size_t>(layout.size()) * 2 * static_cast<std::size_t>(layout.cp().size));
  switch (cut) {
    case RowCut::zigzag:
      cut_sequences(layout, CpLayout::zigzag, of.tp.size);
      break;
    case RowCut::contiguous:
      cut_sequences(layout, CpLayout::contiguous, of.tp.size);
      break;
    case RowCut::flat:
      cut_flat(layout);
      break;
  }
}

void CutRows::cut_sequences(const PackedLayout& layout, CpLayout cut, int tp) {
  const CpGroup cp{layout.cp().size, cut};
  const std::int64_t chunks = cp.chunks();
  const std::int64_t window = layout.local_rows() / tp;
  for (std::int64_t s = 0; s < layout.size(); ++s) {
    const std::int64_t length = layout.aligned_length(s);
    if (length % chunks != 0) {
      throw InputError("sequence " + std::to_string(s),
                       "has " + format_plain_count(length, "row") + ", which cannot be cut into " +
                           std::to_string(chunks) + " equal chunks",
                       "Align every sequence to a multiple of " + std::to_string(chunks) +
                           " (in a configuration, with pack.align_lcm)");
    }
    const std::int64_t chunk = length / chunks;
    const std::int64_t local = layout.local_range(s).begin;
    // The last zigzag rank has two adjacent chunks, which become one run.
    for (std::int64_t c = 0; c < chunks && chunk > 0; ++c) {
      const bool mirrored = c >= cp.size;
      const bool both = !mirrored && chunks > cp.size && c + 1 == cp.size;
      const auto rank = static_cast<int>(mirrored ? chunks - 1 - c : c);
      const RowRange rows{c * chunk, (both ? c + 2 : c + 1) * chunk};
      const std::int64_t first = local + (mirrored ? chunk : 0);
      if (tp == 1) {
        runs_.push_back({s, rows, rank, first});
      } else {
        add({s, rows, rank * tp, first}, window);
      }
      if (both) ++c;
    }
    first_run_.push_back(std::ssize(runs_));
  }
}

void CutRows::cut_flat(const PackedLayout& layout) {
  const std::int64_t part = layout.num_rows() / members_;
  for (std::int64_t s = 0; s < layout.size(); ++s) {
    const RowRange rows{layout.cu_seqlens_padded()[static_cast<std::size_t>(s)],
                        layout.cu_seqlens_padded()[static_cast<std::size_t>(s) + 1]};
    for (std::int64_t at = rows.begin; at < rows.end;) {
      const std::int64_t member = at / part;
      const std::int64_t end = std::min(rows.end, (member + 1) * part);
      runs_.push_back({s, {at - rows.begin, end - rows.begin}, static_cast<int>(member), at - member * part});
      at = end;
    }
    first_run_.push_back(std::ssize(runs_));
  }
}

// Adds a run of a CP rank. Splits the run at multiples of `window` local rows, since each window belongs to a
// different TP rank.
void CutRows::add(const PlacedRun& run, std::int64_t window) {
  for (std::int64_t at = 0; at < run.rows.size();) {
    const std::int64_t local = run.local + at;
    const std::int64_t part = local / window;
    const std::int64_t end = std::min(run.rows.size(), (part + 1) * window - run.local);
    runs_.push_back({run.sequence,
                     {run.rows.begin + at, run.rows.begin + end},
                     run.member + static_cast<int>(part),
                     local - part * window});
    at = end;
  }
}

std::int64_t CutRows::find_run_index(std::int64_t sequence, std::int64_t row) const noexcept {
  const RowRange among = runs_of(sequence);
  EVENKEEL_PRECONDITION(cheap, !among.empty() && row >= 0, sequence, row);
  const auto after = std::ranges::upper_bound(runs_.begin() + among.begin, runs_.begin() + among.end, row, {},
                                              [](const PlacedRun& run) { return run.rows.begin; });
  return after - runs_.begin() - 1;
}

}  // namespace evenkeel
