#pragma once

#include <algorithm>
#include <cstdint>

#include "evenkeel/pack/packed_layout.hpp"

namespace evenkeel {

/// Visits all local rows of a CP rank in order: run(PackedRun) for true tokens, as packed_runs lists them,
/// and pad(RowRange) for the stretches of local rows between, before and after them. Neither is ever empty.
/// Every function of this room that reads or writes packed rows goes this way, so that none can disagree, and
/// none needs memory for the list.
template <typename Run, typename Pad>
void walk_packed_rows(const PackedLayout& layout, CpRank rank, Run run, Pad pad) {
  std::int64_t local = 0;
  std::int64_t covered = 0;
  for (std::int64_t i = 0; i < layout.size(); ++i) {
    const std::int64_t length = layout.length(i);
    for (const RowRange& rows : cp_runs(layout.aligned_length(i), layout.cp(), rank)) {
      const RowRange true_rows{rows.begin, std::min(rows.end, length)};
      if (true_rows.begin < true_rows.end) {
        if (covered < local) pad(RowRange{covered, local});
        run(PackedRun{i, true_rows, local});
        covered = local + true_rows.size();
      }
      local += rows.size();
    }
  }
  if (covered < local) pad(RowRange{covered, local});
}

/// For the walks that care for one of the two only.
inline constexpr auto pass_by = [](const auto&) {};

}  // namespace evenkeel
