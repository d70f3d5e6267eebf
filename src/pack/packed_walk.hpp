#pragma once

#include <algorithm>
#include <cstdint>

#include "evenkeel/pack/packed_layout.hpp"

namespace evenkeel {

/// Sequences [begin, end) of a layout.
struct SequenceRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

[[nodiscard]] inline SequenceRange all_sequences(const PackedLayout& layout) noexcept {
  return {0, layout.size()};
}

/// Visits a CP rank's local rows of some sequences in order. Calls run(PackedRun) for each run of true tokens
/// (see packed_runs()), and pad(RowRange) for the pad rows before, between and after these runs. The
/// arguments are never empty. Functions that copy packed rows use this walk or walk_all_ranks(), which
/// keeps them consistent and avoids allocating a list of runs.
template <typename Run, typename Pad>
void walk_packed_rows(const PackedLayout& layout, CpRank rank, SequenceRange sequences, Run run, Pad pad) {
  if (sequences.begin == sequences.end) return;
  std::int64_t local = layout.local_range(sequences.begin).begin;
  std::int64_t covered = local;
  for (std::int64_t i = sequences.begin; i < sequences.end; ++i) {
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

/// Same as above, for all sequences.
template <typename Run, typename Pad>
void walk_packed_rows(const PackedLayout& layout, CpRank rank, Run run, Pad pad) {
  walk_packed_rows(layout, rank, all_sequences(layout), run, pad);
}

/// Visits the rows of all CP ranks in the order of the sequences, which reads ragged rows once, from front to
/// back. Calls run(CpRank, PackedRun) for true tokens and pad(CpRank, RowRange) for the rank's pad rows. Each
/// run is one chunk: two chunks that are adjacent on a rank are visited separately.
template <typename Run, typename Pad>
void walk_all_ranks(const PackedLayout& layout, SequenceRange sequences, Run run, Pad pad) {
  const CpGroup cp = layout.cp();
  const std::int64_t chunks = cp.chunks();
  for (std::int64_t i = sequences.begin; i < sequences.end; ++i) {
    const std::int64_t length = layout.length(i);
    const std::int64_t chunk = layout.aligned_length(i) / chunks;
    const std::int64_t local_begin = layout.local_range(i).begin;
    for (std::int64_t c = 0; c < chunks && chunk > 0; ++c) {
      const bool mirrored = c >= cp.size;
      const CpRank rank{static_cast<int>(mirrored ? chunks - 1 - c : c)};
      const RowRange local{local_begin + (mirrored ? chunk : 0), local_begin + (mirrored ? 2 : 1) * chunk};
      const std::int64_t tokens = std::clamp(length - c * chunk, std::int64_t{0}, chunk);
      if (tokens > 0) run(rank, PackedRun{i, {c * chunk, c * chunk + tokens}, local.begin});
      if (tokens < chunk) pad(rank, RowRange{local.begin + tokens, local.end});
    }
  }
}

/// Callback that does nothing, for walks.
inline constexpr auto do_nothing = [](const auto&...) {};

}  // namespace evenkeel
