#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "evenkeel/pack/prefix/predictions.hpp"
#include "pack/micro_batch/columns_to_come.hpp"

namespace evenkeel {

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
