#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "evenkeel/batch/field.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"

namespace evenkeel {

/// A column that a micro-batch will have: told before there is memory for it.
struct ColumnToCome {
  FieldSpec spec;
  std::int64_t rows = 0;
  SampleRows samples = {};  ///< of a counted field, with all of its rows

  [[nodiscard]] static ColumnToCome counted(FieldSpec spec, SampleRows samples);
  [[nodiscard]] static ColumnToCome like(const Column& column);

  /// Throws as FieldSpec::bytes_of does.
  [[nodiscard]] std::size_t bytes() const { return spec.bytes_of(rows); }
  /// The column, unwritten, in its part of the arena: in memory of its own where there is none left.
  [[nodiscard]] Column made_in(MicroBatchArena& arena) const;
};

/// The column of that name, or nullptr.
[[nodiscard]] const ColumnToCome* find(std::span<const ColumnToCome> columns, std::string_view name);

/// What a loss mask's rows weigh in the loss: a column of this name.
[[nodiscard]] ColumnToCome weights_of(const ColumnToCome& mask, std::string name);

/// The weights in the loss that a micro-batch with these columns will get, of depths ahead too.
[[nodiscard]] std::vector<ColumnToCome> weights_to_come(std::span<const ColumnToCome> columns,
                                                        std::int64_t predict_ahead);

/// One arena for all of these, with cu_seqlens and the offsets of rows, which it holds already. Texts and
/// opaque bytes, which devices do not need, stand behind the others.
[[nodiscard]] MicroBatchArena arena_for(const PackedLayout& layout, std::span<const ColumnToCome> columns);

}  // namespace evenkeel
