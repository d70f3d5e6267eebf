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

/// Throws InputError naming `what` unless a list has the needed number of entries.
inline void require_entries(std::size_t actual, std::int64_t needed, const char* what) {
  if (actual == static_cast<std::size_t>(needed)) return;
  throw InputError(
      what, "the number of entries is " + std::to_string(actual) + "; it must be " + std::to_string(needed));
}

/// Fills in the position ids of all local rows. The ids of sequence i count up from first(i), including pad
/// rows.
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

/// Returns the first index at or after `from` at which the mask has `value`, or the mask's size.
inline std::int64_t find_in_mask(std::span<const std::uint8_t> mask, std::int64_t from, int value) {
  const auto rest = mask.subspan(static_cast<std::size_t>(from));
  if (rest.empty()) return from;
  const void* found = std::memchr(rest.data(), value, rest.size());
  if (found == nullptr) return static_cast<std::int64_t>(mask.size());
  return static_cast<const std::uint8_t*>(found) - mask.data();
}

/// Calls visit(gap, run) for every maximal run of ones, where `gap` is the run of zeros before it. The last
/// run may be empty. Treats a [batch, seq] mask as one row.
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
