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

/// Describes a column of a micro-batch before the column's memory is allocated.
struct ColumnDescription {
  FieldSpec spec;
  std::int64_t rows = 0;
  SampleRows samples = {};  ///< rows of each sample, if the field is counted

  [[nodiscard]] static ColumnDescription make_counted(FieldSpec spec, SampleRows samples);
  [[nodiscard]] static ColumnDescription from_column(const Column& column);

  /// Returns the size of the column. Throws InputError for an invalid shape or 2^63 bytes or more.
  [[nodiscard]] std::size_t bytes() const { return spec.bytes_of(rows); }
  /// Returns the uninitialized column, in its part of the arena. If the arena does not have a free part for
  /// the column, the column has its own memory.
  [[nodiscard]] Column make_column_in(MicroBatchArena& arena) const;
};

/// Returns the column with this name, or null.
[[nodiscard]] const ColumnDescription* find(std::span<const ColumnDescription> columns,
                                            std::string_view name);

/// Describes the column `name` with the loss weights for a loss mask: one weight per row of the mask.
[[nodiscard]] ColumnDescription describe_weights(const ColumnDescription& mask, std::string name);

/// Lists the columns of loss weights to add to a micro-batch with these columns, for all depths up to
/// `predict_ahead`. Omits weights for which there is already a column with the same spec and number of rows.
[[nodiscard]] std::vector<ColumnDescription> pending_weights(std::span<const ColumnDescription> columns,
                                                             std::int64_t predict_ahead);

/// Returns an arena with parts for all of these columns, and with cu_seqlens and the offsets of counted
/// fields already written. Text and bytes come last, since devices do not need them.
[[nodiscard]] MicroBatchArena arena_for(const PackedLayout& layout,
                                        std::span<const ColumnDescription> columns);

/// Rows of this CP rank for which the token 1 + `ahead` positions later is a response token. Used only with
/// shared prefixes.
struct Predictions {
  Predictions(const PackedMicroBatch& micro_batch, std::int64_t ahead);

  std::vector<PredictionRun> runs;
  SampleRows samples;  ///< number of predictions of each sample
};

/// The columns that complete_fields() adds to a micro-batch. They are described before their memory is
/// allocated.
class DerivedColumns {
 public:
  /// Describes the columns to derive for a micro-batch returned by lay_out() or lay_out_shared(): all columns
  /// that are neither `present` nor in `brought`, the fields of the samples. Fields in `brought` are never
  /// derived, even on ranks that do not receive them. Does not keep references to its arguments.
  DerivedColumns(const PackedMicroBatch& micro_batch, std::span<const ColumnDescription> present,
                 std::span<const FieldSpec> brought, const DerivedFieldSettings& options);

  /// Returns the derived columns, in the order in which they are added.
  [[nodiscard]] std::span<const ColumnDescription> columns() const noexcept { return columns_; }
  /// Returns the column that add_prediction_rows() adds, if any: a prefix of columns().
  [[nodiscard]] std::span<const ColumnDescription> layout_columns() const noexcept {
    return columns().first(num_layout_columns_);
  }

  /// Adds the column prediction_rows_field, which is the first column and depends only on the layout. Does
  /// nothing without shared prefixes.
  void add_prediction_rows(PackedMicroBatch& micro_batch) const;
  /// Adds all other derived columns to the same micro-batch, and sets the pad rows of its tokens. The
  /// `present` columns must already contain their values. `halo` contains the tokens that follow the rank's
  /// runs.
  void add_remaining_columns(PackedMicroBatch& micro_batch, std::span<const std::int64_t> halo) const;

 private:
  using Fill = std::function<void(const PackedMicroBatch&, std::span<const std::int64_t> halo, Column&)>;

  void add(ColumnDescription column, Fill fill);
  void append_column(std::size_t index, PackedMicroBatch& micro_batch,
                     std::span<const std::int64_t> halo) const;

  DerivedFieldSettings options_;
  bool has_tokens_ = false;
  std::size_t num_layout_columns_ = 0;  // number of columns that add_prediction_rows() adds: 1, or 0 if none
  std::vector<ColumnDescription> columns_;
  std::vector<Fill> fills_;  // for each entry of columns_: the function that fills the column
};

}  // namespace evenkeel
