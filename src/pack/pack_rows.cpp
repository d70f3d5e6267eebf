#include "evenkeel/pack/pack_rows.hpp"

#include <cstring>
#include <string>

#include "evenkeel/base/error.hpp"
#include "packed_walk.hpp"
#include "row_fill.hpp"

namespace evenkeel {
namespace {

std::size_t row_bytes_of(const PackedLayout& layout, std::size_t local_bytes) {
  const auto rows = static_cast<std::size_t>(layout.local_rows());
  if (rows == 0 ? local_bytes == 0 : local_bytes % rows == 0) return rows == 0 ? 0 : local_bytes / rows;
  throw InputError("packed rows", std::to_string(local_bytes) + " bytes cannot hold " + std::to_string(rows) +
                                      " rows of one size");
}

/// Checks the buffers' sizes and returns the bytes of one row.
std::size_t checked_row_bytes(const PackedLayout& layout, std::size_t ragged_bytes, std::size_t local_bytes) {
  const std::size_t row_bytes = row_bytes_of(layout, local_bytes);
  require_bytes(ragged_bytes, static_cast<std::size_t>(layout.num_tokens()) * row_bytes, "ragged rows");
  return row_bytes;
}

/// Where a run's first row stands in the ragged rows, in bytes.
std::size_t ragged_offset(const PackedLayout& layout, const PackedRun& run, std::size_t row_bytes) {
  const std::int64_t row = layout.cu_seqlens()[static_cast<std::size_t>(run.index)] + run.sequence.begin;
  return static_cast<std::size_t>(row) * row_bytes;
}

}  // namespace

void pack_rows(const PackedLayout& layout, CpRank rank, std::span<const std::byte> ragged,
               std::span<const std::byte> pad_row, std::span<std::byte> local) {
  const std::size_t row_bytes = checked_row_bytes(layout, ragged.size(), local.size());
  if (local.empty()) return;
  const RowFill fill(pad_row, row_bytes);
  walk_packed_rows(
      layout, rank,
      [&](const PackedRun& run) {
        std::memcpy(local.data() + bytes_of(run.local, row_bytes),
                    ragged.data() + ragged_offset(layout, run, row_bytes),
                    bytes_of(run.sequence.size(), row_bytes));
      },
      [&](RowRange pad) { fill(local.data() + bytes_of(pad.begin, row_bytes), pad.size()); });
}

void unpack_rows(const PackedLayout& layout, CpRank rank, std::span<const std::byte> local,
                 std::span<std::byte> ragged) {
  const std::size_t row_bytes = checked_row_bytes(layout, ragged.size(), local.size());
  if (ragged.empty()) return;
  walk_packed_rows(
      layout, rank,
      [&](const PackedRun& run) {
        std::memcpy(ragged.data() + ragged_offset(layout, run, row_bytes),
                    local.data() + bytes_of(run.local, row_bytes), bytes_of(run.sequence.size(), row_bytes));
      },
      pass_by);
}

void fill_pad_rows(const PackedLayout& layout, CpRank rank, std::span<const std::byte> pad_row,
                   std::span<std::byte> local) {
  const std::size_t row_bytes = row_bytes_of(layout, local.size());
  if (local.empty()) return;
  const RowFill fill(pad_row, row_bytes);
  walk_packed_rows(layout, rank, pass_by,
                   [&](RowRange pad) { fill(local.data() + bytes_of(pad.begin, row_bytes), pad.size()); });
}

}  // namespace evenkeel
