#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "evenkeel/batch/ragged_batch.hpp"

namespace evenkeel::testing_support {

/// Returns a number that depends on every argument. Used as test data, it reveals rows in the wrong place.
inline std::uint64_t mix(std::uint64_t a, std::uint64_t b, std::uint64_t c = 0) {
  std::uint64_t x =
      a * 0x9e3779b97f4a7c15 + b * 0xbf58476d1ce4e5b9 + c * 0x94d049bb133111eb + 0x632be59bd9b4e019;
  x ^= x >> 29;
  x *= 0xff51afd7ed558ccd;
  return x ^ (x >> 32);
}

inline std::int64_t made_up_token(SampleId sample, std::int64_t row) {
  return static_cast<std::int64_t>(
      mix(static_cast<std::uint64_t>(sample.value()), static_cast<std::uint64_t>(row)) % 50000);
}

/// Returns the shape of sample `id`. Lengths vary with the id, and some are zero.
inline SampleShape made_up_shape(std::int64_t id, std::int64_t longest = 40) {
  const auto half = static_cast<std::uint64_t>(longest / 2 + 1);
  const auto seed = static_cast<std::uint64_t>(id);
  const bool nothing = mix(seed, 3) % 11 == 0;
  return {SampleId{id}, seed / 4, nothing ? 0 : static_cast<std::int64_t>(mix(seed, 1) % half),
          nothing ? 0 : static_cast<std::int64_t>(mix(seed, 2) % half)};
}

/// Returns byte `byte` of row `row` of a sample's field.
inline std::byte made_up_byte(SampleId sample, const std::string& field, std::int64_t row, std::size_t byte) {
  return static_cast<std::byte>(mix(static_cast<std::uint64_t>(sample.value()) + field.size() * 1000003,
                                    static_cast<std::uint64_t>(row), byte));
}

/// Returns the same byte, or a character if the field is a text.
inline std::byte made_up_byte(SampleId sample, const FieldSpec& field, std::int64_t row, std::size_t byte) {
  const std::byte made = made_up_byte(sample, field.name, row, byte);
  if (field.kind != FieldKind::text) return made;
  return static_cast<std::byte>('a' + std::to_integer<int>(made) % 26);
}

/// Returns the number of rows of a sample in a counted field; zero for some samples.
inline std::int64_t made_up_rows(SampleId sample, const std::string& field) {
  const auto id = static_cast<std::uint64_t>(sample.value());
  return mix(id, field.size(), 7) % 4 == 0 ? 0 : static_cast<std::int64_t>(mix(id, field.size(), 8) % 9);
}

/// Creates a column of `batch` to be filled.
inline Column made_up_column(const RaggedBatch& batch, const FieldSpec& spec) {
  if (!is_counted(spec.kind)) return {spec, batch.rows_of(spec.kind)};
  std::vector<std::int64_t> counts;
  for (const SampleShape& sample : batch.samples()) counts.push_back(made_up_rows(sample.id, spec.name));
  return {spec, SampleRows::from_counts(counts)};
}

/// Fills a column of `batch` with made-up bytes.
inline void fill_made_up(const RaggedBatch& batch, Column& column) {
  const std::size_t row_bytes = column.spec().row_bytes();
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    const RowRange rows = batch.rows_of(column, i);
    const SampleId id = batch.samples()[static_cast<std::size_t>(i)].id;
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      for (std::size_t b = 0; b < row_bytes; ++b) {
        column.row(row)[b] = made_up_byte(id, column.spec(), row - rows.begin, b);
      }
    }
  }
}

/// Returns the fields of made-up samples: one of every kind of size and shape that a trainer may have.
inline std::vector<FieldSpec> made_up_fields() {
  return {{"advantages", DType::float32, FieldKind::response_token, {}},
          {"flags", DType::boolean, FieldKind::token, {}},
          {"hidden", DType::bfloat16, FieldKind::token, {3, 2}},
          {"nothing", DType::float64, FieldKind::token, {0}},
          {"rewards", DType::float64, FieldKind::sample, {2}},
          {"blob", DType::uint8, FieldKind::bytes, {}},
          {"data_source", DType::uint8, FieldKind::text, {}},
          {"image_patches", DType::float16, FieldKind::rows, {2, 3}},
          {"empty_rows", DType::int32, FieldKind::rows, {0}}};
}
/// Returns the fields whose rows are not counted per sample.
inline std::vector<FieldSpec> made_up_uncounted_fields() {
  std::vector<FieldSpec> fields = made_up_fields();
  std::erase_if(fields, [](const FieldSpec& field) { return is_counted(field.kind); });
  return fields;
}

inline RaggedBatch made_up_batch(std::vector<SampleShape> shapes, std::span<const FieldSpec> extra_fields) {
  RaggedBatch batch(std::move(shapes));
  Column& tokens = batch.add_field({std::string(input_ids_field), DType::int64, FieldKind::token, {}});
  for (std::int64_t i = 0; i < batch.size(); ++i) {
    const RowRange rows = batch.rows_of(FieldKind::token, i);
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      tokens.values<std::int64_t>()[static_cast<std::size_t>(row)] =
          made_up_token(batch.samples()[static_cast<std::size_t>(i)].id, row - rows.begin);
    }
  }
  for (const FieldSpec& spec : extra_fields)
    fill_made_up(batch, batch.add_field(made_up_column(batch, spec)));
  return batch;
}

}  // namespace evenkeel::testing_support
