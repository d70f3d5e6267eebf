#include "pack/mindspeed_cp.hpp"

#include <algorithm>
#include <string>

#include "base/narrow.hpp"
#include "base/text_layout.hpp"
#include "evenkeel/base/error.hpp"

namespace evenkeel {
namespace {

std::vector<std::int64_t> rows_of(const CpRuns& runs) {
  std::vector<std::int64_t> rows;
  for (const RowRange& run : runs) {
    for (std::int64_t row = run.begin; row < run.end; ++row) rows.push_back(row);
  }
  return rows;
}

std::vector<std::int64_t> ulysses_columns(const MindSpeedCp& cp, std::int64_t columns, CpRank rank) {
  const std::int64_t run = align_up(columns, cp.size) / cp.size;
  const std::int64_t parts = run == 0 ? 0 : align_up(columns, run) / run;
  if (parts < cp.size) {
    throw InputError("context-parallel cut",
                     "cutting " + format_plain_count(columns, "column") + " into runs of " +
                         std::to_string(run) + " gives columns to only " + std::to_string(parts) + " of " +
                         std::to_string(cp.size) + " ranks",
                     "Pad the batch to a multiple of the context-parallel size");
  }
  return rows_of(CpRuns({rank.value() * run, std::min(columns, (rank.value() + 1) * run)}));
}

std::vector<std::int64_t> hybrid_columns(const MindSpeedCp& cp, std::int64_t columns, CpRank rank) {
  const CpGroup ring{ring_degree(cp), CpLayout::zigzag};
  const CpGroup ulysses{cp.ulysses_degree, CpLayout::contiguous};
  const std::vector<std::int64_t> of_ring =
      rows_of(cp_runs(columns, ring, CpRank{rank.value() / cp.ulysses_degree}));
  std::vector<std::int64_t> held;
  for (const std::int64_t place : rows_of(cp_runs(static_cast<std::int64_t>(of_ring.size()), ulysses,
                                                  CpRank{rank.value() % cp.ulysses_degree}))) {
    held.push_back(of_ring[static_cast<std::size_t>(place)]);
  }
  return held;
}

std::vector<std::int64_t> columns_cut_by_sequence(const MindSpeedCp& cp, std::int64_t columns,
                                                  std::span<const std::int64_t> sequence_ends, CpRank rank) {
  std::vector<std::int32_t> cu_seqlens{0};
  std::int64_t before = 0;
  for (const std::int64_t end : sequence_ends) {
    if (end < before) {
      throw InputError("sequence ends",
                       "decrease from " + std::to_string(before) + " to " + std::to_string(end));
    }
    before = end;
    const std::int64_t on_one_rank = narrow<std::int32_t>(end, "sequence ends");
    cu_seqlens.push_back(narrow<std::int32_t>(on_one_rank * cp.size, "sequence ends"));
  }
  if (cu_seqlens.back() != columns) {
    throw InputError("sequence ends", "reach column " + std::to_string(cu_seqlens.back()) + " instead of " +
                                          std::to_string(columns) + ", the number of columns over all ranks");
  }
  return partitioned_indices(cu_seqlens, {cp.size, CpLayout::zigzag}, rank);
}

}  // namespace

int ring_degree(const MindSpeedCp& cp) {
  if (cp.size < 1) {
    throw InputError("context-parallel size", "is " + std::to_string(cp.size) + "; it must be at least 1");
  }
  if (cp.algorithm == MindSpeedCpAlgorithm::ring) return cp.size;
  if (cp.algorithm == MindSpeedCpAlgorithm::ulysses) return 1;
  if (cp.ulysses_degree < 1 || cp.size % cp.ulysses_degree != 0) {
    throw InputError("ulysses_degree_in_cp",
                     "is " + std::to_string(cp.ulysses_degree) +
                         "; it must be at least 1 and divide the context-parallel size, " +
                         std::to_string(cp.size));
  }
  return cp.size / cp.ulysses_degree;
}

std::vector<std::int64_t> mindspeed_columns(const MindSpeedCp& cp, std::int64_t columns,
                                            std::span<const std::int64_t> sequence_ends, CpRank rank) {
  static_cast<void>(ring_degree(cp));
  if (rank.value() < 0 || rank.value() >= cp.size) {
    throw InputError("context-parallel rank", "is " + std::to_string(rank.value()) +
                                                  "; it must be from 0 to " + std::to_string(cp.size - 1));
  }
  if (cp.algorithm == MindSpeedCpAlgorithm::ulysses) return ulysses_columns(cp, columns, rank);
  if (cp.algorithm == MindSpeedCpAlgorithm::hybrid) return hybrid_columns(cp, columns, rank);
  if (cp.cut_each_sequence && cp.size > 1) {
    return columns_cut_by_sequence(cp, columns, sequence_ends, rank);
  }
  return rows_of(cp_runs(columns, {cp.size, CpLayout::zigzag}, rank));
}

}  // namespace evenkeel
