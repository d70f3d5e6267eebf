#pragma once

#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>
#include <string>

#include "evenkeel/base/error.hpp"
#include "evenkeel/base/ids.hpp"
#include "evenkeel/pack/packed_layout.hpp"

namespace evenkeel {

/// Throws InputError unless a list has as many entries as it needs.
inline void require_entries(std::size_t actual, std::int64_t needed, const char* what) {
  if (actual == static_cast<std::size_t>(needed)) return;
  throw InputError(what,
                   "has " + std::to_string(actual) + " entries; " + std::to_string(needed) + " are needed");
}

/// Position ids of all local rows: those of sequence i count up from first(i), through its pad rows too.
template <typename First>
void fill_position_ids(const PackedLayout& layout, CpRank rank, First first, std::span<std::int64_t> out) {
  require_entries(out.size(), layout.local_rows(), "position ids");
  auto next = out.begin();
  for (std::int64_t i = 0; i < layout.size(); ++i) {
    for (const RowRange& run : cp_runs(layout.aligned_length(i), layout.cp(), rank)) {
      const auto end = next + run.size();
      std::iota(next, end, first(i) + run.begin);
      next = end;
    }
  }
}

/// The first place at or after `from` where the mask holds `value`, or the mask's end.
inline std::int64_t find_in_mask(std::span<const std::uint8_t> mask, std::int64_t from, int value) {
  const auto rest = mask.subspan(static_cast<std::size_t>(from));
  if (rest.empty()) return from;
  const void* found = std::memchr(rest.data(), value, rest.size());
  if (found == nullptr) return static_cast<std::int64_t>(mask.size());
  return static_cast<const std::uint8_t*>(found) - mask.data();
}

/// Calls visit(gap, run) for every maximal run of ones, with the zeros in front of it; the last run may be
/// empty. The mask is one stretch: a [batch, seq] mask is visited as if its rows were one.
template <typename Visit>
void for_each_mask_run(std::span<const std::uint8_t> mask, Visit visit) {
  const auto size = static_cast<std::int64_t>(mask.size());
  for (std::int64_t at = 0; at < size;) {
    const std::int64_t begin = find_in_mask(mask, at, 1);
    const std::int64_t end = find_in_mask(mask, begin, 0);
    visit(RowRange{at, begin}, RowRange{begin, end});
    at = end;
  }
}

}  // namespace evenkeel
