#pragma once

#include <cstdint>
#include <span>

#include "evenkeel/pack/packed_layout.hpp"

namespace evenkeel {

/// Calls visit(RowRange) for every stretch of local rows, of local_rows in all, that no run covers: the pad
/// rows.
template <typename Visit>
void for_each_pad_range(std::span<const PackedRun> runs, std::int64_t local_rows, Visit visit) {
  std::int64_t covered = 0;
  for (const PackedRun& run : runs) {
    if (covered < run.local) visit(RowRange{covered, run.local});
    covered = run.local + run.sequence.size();
  }
  if (covered < local_rows) visit(RowRange{covered, local_rows});
}

}  // namespace evenkeel
