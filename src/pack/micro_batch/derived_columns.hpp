#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "evenkeel/batch/field.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"
#include "evenkeel/pack/prefix/predictions.hpp"

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

/// With shared prefixes: which rows of this CP rank predict, `ahead` tokens further on than labels.
struct Predictions {
  Predictions(const PackedMicroBatch& micro_batch, std::int64_t ahead);

  std::vector<PredictionRun> runs;
  SampleRows samples;  ///< how many predictions each sample has
};

/// The columns that complete_fields adds to a micro-batch, told before there is memory for them.
class DerivedColumns {
 public:
  /// Of a micro-batch that is laid out and will have the columns `present`, where samples `brought` these
  /// fields. Nothing is kept of either.
  DerivedColumns(const PackedMicroBatch& micro_batch, std::span<const ColumnToCome> present,
                 std::span<const FieldSpec> brought, const DerivedFieldSettings& options);

  /// In the order in which they are added.
  [[nodiscard]] std::span<const ColumnToCome> columns() const noexcept { return columns_; }
  /// Those of them that add_prediction_rows adds.
  [[nodiscard]] std::span<const ColumnToCome> of_layout() const noexcept {
    return columns().first(of_layout_);
  }

  /// With shared prefixes: adds the rows of predictions, which stand first and follow from the layout alone.
  void add_prediction_rows(PackedMicroBatch& micro_batch) const;
  /// Adds all others to the same micro-batch, which has all that is present by now, and sets pad rows of its
  /// tokens.
  void add_to(PackedMicroBatch& micro_batch, std::span<const std::int64_t> halo) const;

 private:
  using Fill = std::function<void(const PackedMicroBatch&, std::span<const std::int64_t> halo, Column&)>;

  void add(ColumnToCome column, Fill fill);
  void make(std::size_t index, PackedMicroBatch& micro_batch, std::span<const std::int64_t> halo) const;

  DerivedFieldSettings options_;
  bool has_tokens_ = false;
  std::size_t of_layout_ = 0;  // how many of the first columns have the rows of predictions
  std::vector<ColumnToCome> columns_;
  std::vector<Fill> fills_;  // by column
};

}  // namespace evenkeel
