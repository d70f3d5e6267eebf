#include "pack/micro_batch/columns_to_come.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace evenkeel {
namespace {

constexpr std::string_view cu_seqlens_part = "cu_seqlens";
constexpr std::string_view cu_seqlens_padded_part = "cu_seqlens_padded";

bool stays_on_host(const ColumnToCome& column) {
  return !column.spec.rule().has_numbers();
}

bool has_offsets(const ColumnToCome& column) {
  return is_counted(column.spec.kind) && column.spec.rule().has_numbers() && !column.samples.are_in_common();
}

}  // namespace

ColumnToCome ColumnToCome::counted(FieldSpec spec, SampleRows samples) {
  const std::int64_t rows = samples.rows();
  return {std::move(spec), rows, std::move(samples)};
}

ColumnToCome ColumnToCome::like(const Column& column) {
  return {column.spec(), column.rows(), column.samples()};
}

Column ColumnToCome::made_in(MicroBatchArena& arena) const {
  std::shared_ptr<std::byte> place = arena.take(spec.name, bytes());
  return is_counted(spec.kind) ? Column::unwritten(spec, samples, std::move(place))
                               : Column::unwritten(spec, rows, std::move(place));
}

const ColumnToCome* find(std::span<const ColumnToCome> columns, std::string_view name) {
  const auto found =
      std::ranges::find_if(columns, [&](const ColumnToCome& column) { return column.spec.name == name; });
  return found == columns.end() ? nullptr : &*found;
}

ColumnToCome weights_of(const ColumnToCome& mask, std::string name) {
  return {{std::move(name), DType::float32, mask.spec.kind, {}}, mask.rows, mask.samples};
}

std::vector<ColumnToCome> weights_to_come(std::span<const ColumnToCome> columns, std::int64_t predict_ahead) {
  std::vector<ColumnToCome> all;
  for (std::int64_t depth = 0; depth <= predict_ahead; ++depth) {
    const ColumnToCome* const mask = find(columns, name_at(loss_mask_field, depth));
    if (mask == nullptr) continue;
    ColumnToCome weights = weights_of(*mask, name_at(loss_weights_field, depth));
    const ColumnToCome* const same = find(columns, weights.spec.name);
    // What samples bring is written over.
    if (same == nullptr || !(same->spec == weights.spec) || same->rows != weights.rows)
      all.push_back(std::move(weights));
  }
  return all;
}

MicroBatchArena arena_for(const PackedLayout& layout, std::span<const ColumnToCome> columns) {
  const auto true_ends = std::as_bytes(layout.cu_seqlens());
  const auto ends = std::as_bytes(layout.cu_seqlens_padded());
  std::vector<MicroBatchArena::Part> parts{{std::string(cu_seqlens_part), true_ends.size()},
                                           {std::string(cu_seqlens_padded_part), ends.size()}};
  parts.reserve(2 + 2 * columns.size());
  for (const bool on_host : {false, true}) {
    for (const ColumnToCome& column : columns) {
      if (stays_on_host(column) != on_host) continue;
      parts.push_back({column.spec.name, column.bytes()});
      if (has_offsets(column))
        parts.push_back({offsets_name(column.spec.name), column.samples.offsets().size_bytes()});
    }
  }
  MicroBatchArena arena(std::move(parts));
  arena.write(cu_seqlens_part, true_ends);
  arena.write(cu_seqlens_padded_part, ends);
  for (const ColumnToCome& column : columns) {
    if (has_offsets(column))
      arena.write(offsets_name(column.spec.name), std::as_bytes(column.samples.offsets()));
  }
  return arena;
}

}  // namespace evenkeel
