#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "batch/equal_values.hpp"
#include "batch/integers.hpp"
#include "evenkeel/pack/packed_micro_batch.hpp"
#include "evenkeel/plan/field_settings.hpp"
#include "support/made_up_batch.hpp"
#include "support/packed_rows.hpp"

// Samples with a field of each kind that needs special treatment: layers, narrow types, several axes, rows,
// text and bytes, and equal values. The values that a rank must receive, and the results that must be
// collected, are computed from the samples alone.

namespace evenkeel::testing_support {

/// A field, its settings in a configuration, and its elements: integers from `least` to `most`, stored as bit
/// patterns in types that are not integers.
struct Carried {
  FieldSpec spec;
  FieldSettings settings;
  std::int64_t least = 0;
  std::int64_t most = 0;
  DType delivered_dtype{};  ///< if many samples have it

  [[nodiscard]] const std::string& name() const { return spec.name; }
  [[nodiscard]] bool are_equal() const { return settings.share == FieldSharing::equal; }
};

/// Twelve layers, which 1, 2, 3, 4 and 6 stages divide evenly.
inline std::vector<Carried> carried_fields_of_every_way() {
  const LayerMap even;
  FieldSettings layers;
  layers.layers = even;
  FieldSettings narrow_layers = layers;
  narrow_layers.wire_dtype = FieldWidth::narrow;
  FieldSettings narrow;
  narrow.wire_dtype = narrow.dtype = FieldWidth::narrow;
  FieldSettings narrow_to_the_end = narrow_layers;
  narrow_to_the_end.dtype = FieldWidth::narrow;
  const auto at = [](FieldStages stage, FieldSharing share) {
    FieldSettings settings;
    settings.stage = stage;
    settings.share = share;
    return settings;
  };
  constexpr auto none = FieldSharing::none;
  constexpr auto equal = FieldSharing::equal;
  return {
      {{"position_ids", DType::int32, FieldKind::token, {3}}, {}, 0, 5000, DType::int32},
      {{"experts", DType::int16, FieldKind::token, {12, 2}}, narrow_layers, 0, 199, DType::int16},
      {{"router", DType::float32, FieldKind::response_token, {12}}, layers, 0, 1 << 30, DType::float32},
      {{"gates", DType::int64, FieldKind::sample, {12, 2}}, narrow_to_the_end, -100, 27, DType::int8},
      {{"versions", DType::int64, FieldKind::response_token, {}}, narrow, 0, 60000, DType::uint16},
      {{"patches", DType::bfloat16, FieldKind::rows, {2, 3}}, {}, 0, 65535, DType::bfloat16},
      {{"data_source", DType::uint8, FieldKind::text, {}},
       at(FieldStages::first, none),
       'a',
       'z',
       DType::uint8},
      {{"blob", DType::uint8, FieldKind::bytes, {}}, at(FieldStages::all, none), 0, 255, DType::uint8},
      {{"image", DType::uint16, FieldKind::rows, {5}}, at(FieldStages::last, equal), 0, 65535, DType::uint16},
      {{"caption", DType::uint8, FieldKind::text, {}}, at(FieldStages::all, equal), 'a', 'z', DType::uint8},
      {{"sound", DType::uint8, FieldKind::bytes, {}}, at(FieldStages::first, equal), 0, 255, DType::uint8}};
}

/// Fields that owners add to a later pass.
inline std::vector<Carried> carried_fields_added_later() {
  std::vector<Carried> added;
  for (Carried field : carried_fields_of_every_way()) {
    for (const char* name : {"experts", "versions", "patches", "caption"}) {
      if (field.name() != name) continue;
      field.spec.name = "late_" + field.spec.name;
      added.push_back(std::move(field));
      break;
    }
  }
  return added;
}

inline NamedFields settings_of(const std::vector<Carried>& fields) {
  NamedFields named;
  for (const Carried& field : fields) {
    if (field.settings != FieldSettings{}) named[field.name()] = field.settings;
  }
  return named;
}

/// Returns the shape of a sample. Samples of a group share their prompt; some are empty, and some are long.
inline SampleShape carried_shape(std::int64_t id, std::int64_t longest = 20) {
  const auto group = static_cast<std::uint64_t>(id) / 4;
  if (id % 9 == 6) return {SampleId{id}, group, 0, 0};
  if (id % 16 == 7) return {SampleId{id}, group, static_cast<std::int64_t>(mix(group, 1) % 12), longest};
  return {SampleId{id}, group, static_cast<std::int64_t>(mix(group, 1) % 12),
          static_cast<std::int64_t>(mix(static_cast<std::uint64_t>(id), 2) % 16)};
}

/// Returns element `e` of row `row` of a sample. The values of prompt tokens, and equal values, depend only
/// on the group.
inline std::int64_t carried_number(const Carried& field, const SampleShape& sample, std::int64_t row,
                                   std::int64_t e) {
  const bool of_group = is_counted(field.spec.kind)
                            ? field.are_equal()
                            : field.spec.kind == FieldKind::token && row < sample.prompt;
  const std::uint64_t owner = of_group ? 1000 + sample.group : static_cast<std::uint64_t>(sample.id.value());
  const std::uint64_t drawn = mix(owner ^ std::hash<std::string>{}(field.name()),
                                  static_cast<std::uint64_t>(row), static_cast<std::uint64_t>(e));
  return field.least +
         static_cast<std::int64_t>(drawn % static_cast<std::uint64_t>(field.most - field.least + 1));
}

/// Returns the number of rows that a sample has.
inline std::int64_t carried_rows(const Carried& field, const SampleShape& sample) {
  if (sample.id < SampleId{0}) return 0;
  const auto of = field.are_equal() ? sample.group : static_cast<std::uint64_t>(sample.id.value());
  return mix(of, field.name().size()) % 5 == 0 ? 0 : static_cast<std::int64_t>(mix(of, 9) % 7);
}

/// Returns an element of a column as a number; if it is not an integer, its bits.
inline std::int64_t number_at(const Column& column, std::int64_t row, std::int64_t e) {
  const DType dtype = column.spec().dtype;
  const std::byte* const at = column.row(row) + static_cast<std::size_t>(e) * size_of(dtype);
  if (is_integer(dtype)) {
    return with_integer_type(dtype, [&]<typename T>(T value) {
      std::memcpy(&value, at, sizeof(T));
      return static_cast<std::int64_t>(value);
    });
  }
  std::int64_t bits = 0;
  std::memcpy(&bits, at, size_of(dtype));
  return bits;
}

inline std::int64_t elements_of(const FieldSpec& spec) {
  std::int64_t elements = 1;
  for (const std::int64_t d : spec.trailing) elements *= d;
  return elements;
}

/// Returns the samples with their tokens and these fields.
inline RaggedBatch carried_batch(std::vector<SampleShape> shapes, const std::vector<Carried>& fields,
                                 bool with_tokens = true) {
  RaggedBatch batch(std::move(shapes));
  std::vector<Carried> all = fields;
  if (with_tokens) {
    const FieldSpec tokens{std::string(input_ids_field), DType::int64, FieldKind::token, {}};
    all.insert(all.begin(), {tokens, {}, 0, 1 << 20, DType::int64});
  }
  for (const Carried& field : all) {
    std::vector<std::int64_t> counts;
    for (const SampleShape& sample : batch.samples()) counts.push_back(carried_rows(field, sample));
    Column& column =
        batch.add_field(is_counted(field.spec.kind) ? Column(field.spec, SampleRows::from_counts(counts))
                                                    : Column(field.spec, batch.rows_of(field.spec.kind)));
    const std::size_t size = size_of(field.spec.dtype);
    for (std::int64_t i = 0; i < batch.size(); ++i) {
      const RowRange rows = batch.rows_of(column, i);
      for (std::int64_t row = rows.begin; row < rows.end; ++row) {
        for (std::int64_t e = 0; e < elements_of(field.spec); ++e) {
          const std::int64_t number =
              carried_number(field, batch.samples()[static_cast<std::size_t>(i)], row - rows.begin, e);
          std::memcpy(column.row(row) + static_cast<std::size_t>(e) * size, &number, size);
        }
      }
    }
  }
  return batch;
}

/// The position of a rank in the pipeline.
struct Stage {
  int pp = 0;
  int of = 1;
  int vpp = 1;

  [[nodiscard]] bool is_sent(const Carried& field) const {
    if (field.settings.layers || field.name() == position_ids_field) return true;
    if (field.settings.stage == FieldStages::all) return true;
    return pp == (field.settings.stage == FieldStages::first ? 0 : of - 1);
  }
  /// Returns the elements of a supplied row that this stage gets, with layers numbered as in Megatron-Core.
  [[nodiscard]] std::vector<std::int64_t> elements(const Carried& field) const {
    std::vector<std::int64_t> mine;
    const std::int64_t all = elements_of(field.spec);
    if (!field.settings.layers) {
      for (std::int64_t e = 0; e < all; ++e) mine.push_back(e);
      return mine;
    }
    const std::int64_t in_part = all / of / vpp;
    for (int part = 0; part < vpp; ++part)
      for (std::int64_t i = 0; i < in_part; ++i) mine.push_back((std::int64_t{part} * of + pp) * in_part + i);
    return mine;
  }
};

/// Row `row` of a sample in a column, or nullopt.
struct CarriedRow {
  std::int64_t at = 0;
  const SampleShape* sample = nullptr;
  std::int64_t row = 0;
};

/// Returns the rows of a column; shared rows are repeated for each sample that has them.
inline std::vector<CarriedRow> carried_rows_of(const PackedMicroBatch& m, const Carried& field,
                                               const Column& column) {
  std::vector<CarriedRow> rows;
  const auto add = [&](const SampleShape* sample, std::int64_t row) {
    const bool is_response = field.spec.kind == FieldKind::response_token;
    const bool is_there =
        sample != nullptr && (!is_response || (0 <= row && sample->prompt + row < sample->length()));
    rows.push_back({std::ssize(rows), is_there ? sample : nullptr, row});
  };
  if (field.spec.kind == FieldKind::token) {
    for (const PackedRow& row : packed_rows_of(m)) add(row.sample, row.t);
  } else if (field.spec.kind == FieldKind::response_token) {
    const std::vector<PackedRow> packed = packed_rows_of(m);
    const auto next = [&](const PackedRow& row, const SampleShape* sample) {
      add(row.sample == nullptr ? nullptr : sample, sample == nullptr ? 0 : row.t + 1 - sample->prompt);
    };
    if (!m.shared) {
      for (const PackedRow& row : packed) next(row, row.sample);
      return rows;
    }
    const auto predicting = m.find(prediction_rows_field)->values<std::int64_t>();
    for (std::size_t i = 0; i < m.samples.size(); ++i) {
      for (std::int64_t p = m.shared->prediction_offsets[i]; p < m.shared->prediction_offsets[i + 1]; ++p)
        next(packed[static_cast<std::size_t>(predicting[static_cast<std::size_t>(p)])], &m.samples[i]);
    }
  } else if (field.spec.kind == FieldKind::sample) {
    for (const SampleShape& sample : m.samples) add(sample.id < SampleId{0} ? nullptr : &sample, 0);
  } else {
    for (std::size_t i = 0; i < m.samples.size(); ++i) {
      const RowRange range = column.samples()[static_cast<std::int64_t>(i)];
      for (std::int64_t row = range.begin; row < range.end; ++row)
        rows.push_back({row, &m.samples[i], row - range.begin});
    }
  }
  return rows;
}

/// Requires that a micro-batch has its samples' values of these fields, as far as they are sent to its stage.
inline void expect_carried(const PackedMicroBatch& m, const std::vector<Carried>& fields, const Stage& here) {
  for (const Carried& field : fields) {
    const Column* const column = m.find(field.name());
    ASSERT_EQ(column != nullptr, here.is_sent(field)) << field.name();
    if (column == nullptr) continue;
    const std::vector<std::int64_t> elements = here.elements(field);
    EXPECT_EQ(column->spec().dtype, field.delivered_dtype) << field.name();
    ASSERT_EQ(elements_of(column->spec()), std::ssize(elements)) << field.name();
    if (is_counted(field.spec.kind)) {
      ASSERT_EQ(column->samples().are_shared(), field.are_equal()) << field.name();
      ASSERT_EQ(column->samples().size(), std::ssize(m.samples)) << field.name();
      for (std::size_t i = 0; i < m.samples.size(); ++i)
        ASSERT_EQ(column->samples()[static_cast<std::int64_t>(i)].size(), carried_rows(field, m.samples[i]))
            << field.name();
    }
    const std::vector<CarriedRow> rows = carried_rows_of(m, field, *column);
    if (!is_counted(field.spec.kind)) {
      ASSERT_EQ(column->rows(), std::ssize(rows)) << field.name();
    }
    for (const CarriedRow& row : rows) {
      for (std::size_t e = 0; e < elements.size(); ++e) {
        const std::int64_t expected =
            row.sample == nullptr ? 0 : carried_number(field, *row.sample, row.row, elements[e]);
        ASSERT_EQ(number_at(*column, row.at, static_cast<std::int64_t>(e)), expected)
            << field.name() << " row " << row.at;
      }
    }
  }
}

/// Returns the fields of a micro-batch as results, on a rank of the last stage. That stage has only its own
/// layers, and returns them under another name.
inline std::vector<Column> carried_results(const PackedMicroBatch& m, const std::vector<Carried>& fields) {
  std::vector<Column> results;
  for (const Carried& field : fields) {
    const Column* const column = m.find(field.name());
    if (column == nullptr) continue;
    FieldSpec spec = column->spec();
    spec.kind = field.spec.kind;
    if (field.settings.layers) spec.name += "_back";
    const Column own = field.are_equal() ? with_separate_rows(*column) : *column;
    Column& result =
        results.emplace_back(is_counted(spec.kind) ? Column(spec, own.samples()) : Column(spec, own.rows()));
    std::ranges::copy(own.bytes(), result.bytes().begin());
  }
  return results;
}

/// Requires that the collected results of the last stage equal the supplied values.
inline void expect_carried_results(const RaggedBatch& home, const std::vector<Carried>& fields,
                                   const Stage& last) {
  for (const Carried& field : fields) {
    if (!last.is_sent(field)) continue;
    const Column& column = home.at(field.settings.layers ? field.name() + "_back" : field.name());
    const std::vector<std::int64_t> elements = last.elements(field);
    ASSERT_EQ(elements_of(column.spec()), std::ssize(elements)) << field.name();
    for (std::int64_t i = 0; i < home.size(); ++i) {
      const SampleShape& sample = home.samples()[static_cast<std::size_t>(i)];
      const RowRange rows = home.rows_of(column, i);
      if (is_counted(field.spec.kind)) {
        ASSERT_EQ(rows.size(), carried_rows(field, sample)) << field.name();
      }
      for (std::int64_t row = 0; row < rows.size(); ++row) {
        // Nothing predicts the token that begins a sequence.
        const bool is_zero = field.spec.kind == FieldKind::response_token && sample.prompt + row == 0;
        for (std::size_t e = 0; e < elements.size(); ++e) {
          const std::int64_t expected = is_zero ? 0 : carried_number(field, sample, row, elements[e]);
          ASSERT_EQ(number_at(column, rows.begin + row, static_cast<std::int64_t>(e)), expected)
              << field.name() << " of sample " << sample.id.value();
        }
      }
    }
  }
}

}  // namespace evenkeel::testing_support
