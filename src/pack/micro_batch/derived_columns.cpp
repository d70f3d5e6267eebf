#include "pack/micro_batch/derived_columns.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "pack/derived_fields.hpp"
#include "pack/pack_rows.hpp"

namespace evenkeel {
namespace {

constexpr std::string_view cu_seqlens_part = "cu_seqlens";
constexpr std::string_view cu_seqlens_padded_part = "cu_seqlens_padded";

bool stays_on_host(const ColumnDescription& column) {
  return !column.spec.rule().has_numbers();
}

bool has_offsets(const ColumnDescription& column) {
  return is_counted(column.spec.kind) && column.spec.rule().has_numbers() && !column.samples.are_shared();
}

std::vector<std::int64_t> prompt_lengths_of(std::span<const SampleShape> samples) {
  std::vector<std::int64_t> prompts;
  for (const SampleShape& sample : samples) prompts.push_back(sample.prompt);
  return prompts;
}

std::span<const std::int64_t> local_tokens(const PackedMicroBatch& micro_batch) {
  return micro_batch.find(input_ids_field)->values<std::int64_t>();
}

ColumnDescription token_column(const PackedMicroBatch& micro_batch, std::string_view name, DType dtype) {
  return {{std::string(name), dtype, FieldKind::token, {}}, micro_batch.layout.local_rows()};
}

/// Describes a column with one row per prediction of the token 1 + `depth` positions later. If `depth` is
/// above 0, the field is counted, since a sample may then have a different number of predictions than at
/// depth 0.
ColumnDescription prediction_column(const Predictions& predictions, std::string_view field,
                                    std::int64_t depth, DType dtype) {
  const bool is_counted = depth > 0;
  FieldSpec spec{
      field_name_at_depth(field, depth), dtype, is_counted ? FieldKind::rows : FieldKind::response_token, {}};
  if (is_counted) return ColumnDescription::make_counted(std::move(spec), predictions.samples);
  return {std::move(spec), predictions.samples.rows()};
}

void fill_pad_tokens(PackedMicroBatch& micro_batch, std::int64_t pad_token) {
  Column& tokens = *micro_batch.find(input_ids_field);
  if (micro_batch.has_filler()) {
    std::ranges::fill(tokens.values<std::int64_t>(), pad_token);
  } else {
    fill_pad_rows(micro_batch.layout, micro_batch.cp_rank, std::as_bytes(std::span(&pad_token, 1)),
                  tokens.bytes());
  }
}

void set_position_ids(const PackedMicroBatch& micro_batch, std::span<const std::int64_t>, Column& column) {
  const std::span<std::int64_t> positions = column.values<std::int64_t>();
  if (micro_batch.shared) {
    derive_position_ids(micro_batch.shared->tree, micro_batch.cp_rank, positions);
  } else {
    derive_position_ids(micro_batch.layout, micro_batch.cp_rank, positions);
  }
}

void set_padding_mask(const PackedMicroBatch& micro_batch, std::span<const std::int64_t>, Column& column) {
  std::vector<std::uint8_t> values(static_cast<std::size_t>(column.rows()), 1);
  if (!micro_batch.has_filler()) derive_padding_mask(micro_batch.layout, micro_batch.cp_rank, values);
  std::ranges::copy(std::as_bytes(std::span(values)), column.bytes().begin());
}

auto make_tokens_ahead_fill(std::int64_t ahead, std::int64_t reach, std::int64_t pad) {
  return [=](const PackedMicroBatch& micro_batch, std::span<const std::int64_t> halo, Column& column) {
    const std::span<std::int64_t> values = column.values<std::int64_t>();
    if (micro_batch.has_filler()) {
      std::ranges::fill(values, pad);
    } else if (micro_batch.shared) {
      derive_tokens_ahead(micro_batch.shared->tree, micro_batch.cp_rank, local_tokens(micro_batch), halo,
                          reach, ahead, pad, values);
    } else {
      derive_tokens_ahead(micro_batch.layout, micro_batch.cp_rank, local_tokens(micro_batch), halo, reach,
                          ahead, pad, values);
    }
  };
}

auto make_loss_mask_fill(std::int64_t ahead) {
  return [=](const PackedMicroBatch& micro_batch, std::span<const std::int64_t>, Column& column) {
    derive_loss_mask(micro_batch.layout, micro_batch.cp_rank, prompt_lengths_of(micro_batch.samples),
                     column.values<float>(), ahead);
  };
}

auto make_prediction_rows_fill(std::shared_ptr<const Predictions> predictions) {
  return [predictions = std::move(predictions)](const PackedMicroBatch&, std::span<const std::int64_t>,
                                                Column& column) {
    auto next = column.values<std::int64_t>().begin();
    for (const PredictionRun& run : predictions->runs) {
      std::iota(next, next + run.rows.size(), run.rows.begin);
      next += run.rows.size();
    }
  };
}

// The returned function does nothing if the micro-batch consists of filler, which has no predictions.
auto make_prediction_labels_fill(std::int64_t ahead, std::int64_t reach) {
  return [=](const PackedMicroBatch& micro_batch, std::span<const std::int64_t> halo, Column& column) {
    if (micro_batch.has_filler()) return;
    derive_labels(micro_batch.shared->tree, prompt_lengths_of(micro_batch.samples), micro_batch.cp_rank,
                  local_tokens(micro_batch), halo, column.values<std::int64_t>(), reach, ahead);
  };
}

// Sets the loss mask in every row, since all rows of this column predict response tokens.
void set_prediction_mask(const PackedMicroBatch&, std::span<const std::int64_t>, Column& column) {
  std::ranges::fill(column.values<float>(), 1.0F);
}

}  // namespace

ColumnDescription ColumnDescription::make_counted(FieldSpec spec, SampleRows samples) {
  const std::int64_t rows = samples.rows();
  return {std::move(spec), rows, std::move(samples)};
}

ColumnDescription ColumnDescription::from_column(const Column& column) {
  return {column.spec(), column.rows(), column.samples()};
}

Column ColumnDescription::make_column_in(MicroBatchArena& arena) const {
  std::shared_ptr<std::byte> place = arena.take(spec.name, bytes());
  return is_counted(spec.kind) ? Column::uninitialized(spec, samples, std::move(place))
                               : Column::uninitialized(spec, rows, std::move(place));
}

const ColumnDescription* find(std::span<const ColumnDescription> columns, std::string_view name) {
  const auto found = std::ranges::find_if(
      columns, [&](const ColumnDescription& column) { return column.spec.name == name; });
  return found == columns.end() ? nullptr : &*found;
}

ColumnDescription describe_weights(const ColumnDescription& mask, std::string name) {
  return {{std::move(name), DType::float32, mask.spec.kind, {}}, mask.rows, mask.samples};
}

std::vector<ColumnDescription> pending_weights(std::span<const ColumnDescription> columns,
                                               std::int64_t predict_ahead) {
  std::vector<ColumnDescription> all;
  for (std::int64_t depth = 0; depth <= predict_ahead; ++depth) {
    const ColumnDescription* const mask = find(columns, field_name_at_depth(loss_mask_field, depth));
    if (mask == nullptr) continue;
    ColumnDescription weights = describe_weights(*mask, field_name_at_depth(loss_weights_field, depth));
    const ColumnDescription* const same = find(columns, weights.spec.name);
    // If samples have a field of weights with the same spec and number of rows, no column is added: that
    // field is overwritten in place.
    if (same == nullptr || !(same->spec == weights.spec) || same->rows != weights.rows)
      all.push_back(std::move(weights));
  }
  return all;
}

MicroBatchArena arena_for(const PackedLayout& layout, std::span<const ColumnDescription> columns) {
  const auto true_ends = std::as_bytes(layout.cu_seqlens());
  const auto ends = std::as_bytes(layout.cu_seqlens_padded());
  std::vector<MicroBatchArena::Part> parts{{std::string(cu_seqlens_part), true_ends.size()},
                                           {std::string(cu_seqlens_padded_part), ends.size()}};
  parts.reserve(2 + 2 * columns.size());
  for (const bool on_host : {false, true}) {
    for (const ColumnDescription& column : columns) {
      if (stays_on_host(column) != on_host) continue;
      parts.push_back({column.spec.name, column.bytes()});
      if (has_offsets(column))
        parts.push_back({offsets_name(column.spec.name), column.samples.offsets().size_bytes()});
    }
  }
  MicroBatchArena arena(std::move(parts));
  arena.write(cu_seqlens_part, true_ends);
  arena.write(cu_seqlens_padded_part, ends);
  for (const ColumnDescription& column : columns) {
    if (has_offsets(column))
      arena.write(offsets_name(column.spec.name), std::as_bytes(column.samples.offsets()));
  }
  return arena;
}

Predictions::Predictions(const PackedMicroBatch& micro_batch, std::int64_t ahead)
    : runs(prediction_runs(micro_batch.shared->tree, prompt_lengths_of(micro_batch.samples),
                           micro_batch.cp_rank, ahead)) {
  std::vector<std::int64_t> counts(micro_batch.samples.size());
  for (const PredictionRun& run : runs) counts[static_cast<std::size_t>(run.sample)] += run.rows.size();
  samples = SampleRows::from_counts(counts);
}

DerivedColumns::DerivedColumns(const PackedMicroBatch& micro_batch,
                               std::span<const ColumnDescription> present, std::span<const FieldSpec> brought,
                               const DerivedFieldSettings& options)
    : options_(options), has_tokens_(find(present, input_ids_field) != nullptr) {
  const auto add_if_missing = [&](ColumnDescription column, Fill fill) {
    const std::string& name = column.spec.name;
    if (find(present, name) == nullptr && find(columns_, name) == nullptr &&
        std::ranges::find(brought, name, &FieldSpec::name) == brought.end())
      add(std::move(column), std::move(fill));
  };
  std::shared_ptr<const Predictions> predictions;
  const auto add_rows = [&](std::int64_t depth) {
    add_if_missing(prediction_column(*predictions, prediction_rows_field, depth, DType::int64),
                   make_prediction_rows_fill(predictions));
  };
  if (micro_batch.shared) {
    predictions = std::make_shared<const Predictions>(micro_batch, 0);
    add_rows(0);
    num_layout_columns_ = columns_.size();
  }
  add_if_missing(token_column(micro_batch, position_ids_field, DType::int64), set_position_ids);
  if (options.padding_mask)
    add_if_missing(token_column(micro_batch, padding_mask_field, DType::boolean), set_padding_mask);
  if (!has_tokens_) return;
  for (std::int64_t depth = 0; depth <= options.predict_ahead; ++depth) {
    if (depth > 0) {
      add_if_missing(token_column(micro_batch, field_name_at_depth(input_ids_field, depth), DType::int64),
                     make_tokens_ahead_fill(depth, options.reach(), options.pad_token));
    }
    if (!micro_batch.shared) {
      add_if_missing(token_column(micro_batch, field_name_at_depth(labels_field, depth), DType::int64),
                     make_tokens_ahead_fill(depth + 1, options.reach(), options.label_pad));
      add_if_missing(token_column(micro_batch, field_name_at_depth(loss_mask_field, depth), DType::float32),
                     make_loss_mask_fill(depth));
      continue;
    }
    if (depth > 0) predictions = std::make_shared<const Predictions>(micro_batch, depth);
    add_rows(depth);
    add_if_missing(prediction_column(*predictions, labels_field, depth, DType::int64),
                   make_prediction_labels_fill(depth, options.reach()));
    add_if_missing(prediction_column(*predictions, loss_mask_field, depth, DType::float32),
                   set_prediction_mask);
  }
}

void DerivedColumns::add_prediction_rows(PackedMicroBatch& micro_batch) const {
  for (std::size_t i = 0; i < num_layout_columns_; ++i) append_column(i, micro_batch, {});
}

void DerivedColumns::add_remaining_columns(PackedMicroBatch& micro_batch,
                                           std::span<const std::int64_t> halo) const {
  if (has_tokens_) fill_pad_tokens(micro_batch, options_.pad_token);
  for (std::size_t i = num_layout_columns_; i < columns_.size(); ++i) append_column(i, micro_batch, halo);
}

void DerivedColumns::add(ColumnDescription column, Fill fill) {
  columns_.push_back(std::move(column));
  fills_.push_back(std::move(fill));
}

void DerivedColumns::append_column(std::size_t index, PackedMicroBatch& micro_batch,
                                   std::span<const std::int64_t> halo) const {
  Column column = columns_[index].make_column_in(micro_batch.arena);
  fills_[index](micro_batch, halo, column);
  micro_batch.fields.push_back(std::move(column));
}

}  // namespace evenkeel
