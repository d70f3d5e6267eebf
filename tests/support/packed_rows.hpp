#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "evenkeel/pack/packed_micro_batch.hpp"

// Computes the sample and token to which each row of a micro-batch belongs, using only the layout and a
// different method than the code under test.

namespace evenkeel::testing_support {

/// Returns the position of a local row in its aligned sequence.
inline std::int64_t position_of(std::int64_t local, std::int64_t aligned, CpGroup cp, CpRank rank) {
  if (cp.size == 1) return local;
  if (cp.layout == CpLayout::contiguous) return rank.value() * (aligned / cp.size) + local;
  const std::int64_t chunk = aligned / (2 * std::int64_t{cp.size});
  return local < chunk ? rank.value() * chunk + local
                       : (2 * std::int64_t{cp.size} - 1 - rank.value()) * chunk + local - chunk;
}

/// A row of a micro-batch: token `t` of a sample (the first sample, if several share it), or a pad row, which
/// belongs to no sample.
struct PackedRow {
  const SampleShape* sample = nullptr;
  std::int64_t t = 0;
};

/// Returns the local rows of a micro-batch, which must outlive the result.
inline std::vector<PackedRow> packed_rows_of(const PackedMicroBatch& m) {
  std::vector<PackedRow> rows(static_cast<std::size_t>(m.layout.local_rows()));
  for (std::int64_t s = 0; s < m.layout.size(); ++s) {
    const std::int64_t first = m.shared ? m.shared->tree.tree().segment(s).first_sample : s;
    const SampleShape& sample = m.samples[static_cast<std::size_t>(first)];
    const std::int64_t depth = m.shared ? m.shared->tree.tree().segment(s).depth : 0;
    const RowRange range = m.layout.local_range(s);
    for (std::int64_t row = range.begin; row < range.end; ++row) {
      const std::int64_t at =
          position_of(row - range.begin, m.layout.aligned_length(s), m.layout.cp(), m.cp_rank);
      if (at < m.layout.length(s) && sample.id >= SampleId{0})
        rows[static_cast<std::size_t>(row)] = {&sample, depth + at};
    }
  }
  return rows;
}

}  // namespace evenkeel::testing_support
