#pragma once

#include <cstdint>
#include <numeric>
#include <span>
#include <string>

#include "evenkeel/base/error.hpp"
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

}  // namespace evenkeel
