#include "c/mpi/fields.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "base/text_layout.hpp"
#include "c/failures.hpp"

namespace evenkeel::c {
namespace {

/// The element types in the order of the C enum. Values of the C enum begin at 1, since 0 means unset.
constexpr std::array dtypes{DType::boolean, DType::uint8,    DType::int32,   DType::int64,
                            DType::float16, DType::bfloat16, DType::float32, DType::float64,
                            DType::int8,    DType::int16,    DType::uint16,  DType::uint32};
static_assert(EVENKEEL_BOOL == 1 && EVENKEEL_INT64 == 4 && EVENKEEL_FLOAT64 == 8 &&
              EVENKEEL_UINT32 == dtypes.size());

// Ranges are returned as pairs of integers.
static_assert(sizeof(RowRange) == 2 * sizeof(std::int64_t) && std::is_standard_layout_v<RowRange>);

[[noreturn]] void reject_number(std::int32_t number, std::size_t most, const std::string& where) {
  throw WrongArgument(where,
                      "is " + std::to_string(number) + "; it must be from 1 to " + std::to_string(most));
}

DType dtype_of_number(std::int32_t number, const std::string& where) {
  if (number < 1 || number > std::ssize(dtypes)) reject_number(number, dtypes.size(), where);
  return dtypes[static_cast<std::size_t>(number) - 1];
}

std::int32_t dtype_number(DType dtype) noexcept {
  return static_cast<std::int32_t>(std::ranges::find(dtypes, dtype) - dtypes.begin()) + 1;
}

FieldKind kind_of_number(std::int32_t number, const std::string& where) {
  const auto rules = all_field_rules();
  const auto found = std::ranges::find(rules, number, &FieldRule::c_value);
  if (found == rules.end()) reject_number(number, rules.size(), where);
  return found->kind;
}

std::string list_field_names(std::span<const Column> fields) {
  if (fields.empty()) return "none";
  return join(fields, [](const Column& column) { return column.spec().name; });
}

// Returns the rows of each sample in a counted field.
SampleRows sample_rows_of(const evenkeel_field& field, const std::string& where) {
  if (field.ranges != nullptr) {
    throw InputError(where, "has ranges, which only returned fields with shared rows can have",
                     "Provide each sample's own rows, with offsets");
  }
  require_list(field.offsets, field.num_samples, "field->offsets");
  if (field.offsets == nullptr && field.rows != 0) {
    throw InputError(where, "has " + format_plain_count(field.rows, "row") + ", but its offsets are NULL",
                     "Set num_samples, and offsets to the prefix sums of the samples' numbers of rows");
  }
  SampleRows samples;
  if (field.offsets != nullptr) {
    try {
      samples = SampleRows::from_offsets(std::vector(field.offsets, field.offsets + field.num_samples + 1));
    } catch (const InputError& error) {
      throw InputError(where, "has offsets that " + error.report().message, error.report().hint);
    }
  }
  if (samples.rows() == field.rows) return samples;
  throw InputError(where,
                   "has " + format_plain_count(field.rows, "row") + ", but its offsets end at " +
                       std::to_string(samples.rows()),
                   "Make the last offset equal to the number of rows");
}

// Throws InputError if a field of an uncounted kind has offsets or ranges.
void require_no_offsets(const evenkeel_field& field, FieldKind kind, const std::string& where) {
  if (field.offsets == nullptr && field.ranges == nullptr && field.num_samples == 0) return;
  throw InputError(where,
                   "sets num_samples, offsets or ranges, but the number of rows of a " +
                       std::string(name_of(kind)) + " field follows from the samples",
                   "Set num_samples to 0, and offsets and ranges to NULL, or use kind rows, text or bytes");
}

}  // namespace

CheckedField check_field(const evenkeel_field* field) {
  require(field, "field");
  require(field->name, "field->name");
  const std::string where = "field '" + std::string(field->name) + "'";
  CheckedField result;
  FieldSpec& spec = result.spec;
  spec.name = field->name;
  spec.dtype = dtype_of_number(field->dtype, where + ", dtype");
  spec.kind = kind_of_number(field->kind, where + ", kind");
  require_list(field->trailing, field->num_trailing, "field->trailing");
  spec.trailing.assign(field->trailing, field->trailing + field->num_trailing);
  const std::size_t row_bytes = spec.row_bytes();
  constexpr auto most = static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max());
  if (field->rows < 0 || (row_bytes > 0 && static_cast<std::size_t>(field->rows) > most / row_bytes))
    throw WrongArgument(where, "cannot have " + std::to_string(field->rows) +
                                   " rows: a field has at least 0 rows and less than 2^63 bytes");
  const std::size_t bytes = row_bytes * static_cast<std::size_t>(field->rows);
  if (bytes > 0 && field->data == nullptr) throw WrongArgument(where + ", data", "is NULL");
  result.bytes = {static_cast<const std::byte*>(field->data), bytes};
  if (is_counted(spec.kind)) {
    result.samples = sample_rows_of(*field, where);
  } else {
    require_no_offsets(*field, spec.kind, where);
  }
  return result;
}

evenkeel_field view_of(const Column& column) {
  const FieldSpec& spec = column.spec();
  evenkeel_field view{};
  view.name = spec.name.c_str();
  view.dtype = dtype_number(spec.dtype);
  view.kind = spec.rule().c_value;
  view.rows = column.rows();
  view.num_trailing = std::ssize(spec.trailing);
  view.trailing = spec.trailing.data();
  view.data = column.bytes().data();
  view.bytes = static_cast<std::int64_t>(column.bytes().size());
  view.is_shared = column.is_borrowed() ? 1 : 0;
  if (!is_counted(spec.kind)) return view;
  const SampleRows& samples = column.samples();
  view.num_samples = samples.size();
  if (samples.are_shared()) {
    view.ranges = &samples.ranges().data()->begin;
  } else {
    view.offsets = samples.offsets().data();
  }
  return view;
}

evenkeel_field field_at(std::span<const Column> fields, std::int64_t index) {
  require_index(index, std::ssize(fields), "index", "fields");
  return view_of(fields[static_cast<std::size_t>(index)]);
}

evenkeel_field find_field_by_name(std::span<const Column> fields, const char* name,
                                  const std::string& where) {
  require(name, "name");
  const auto has_name = [&](const Column& column) { return column.spec().name == name; };
  const auto found = std::ranges::find_if(fields, has_name);
  if (found != fields.end()) return view_of(*found);
  throw InputError(where, "has no field '" + std::string(name) + "'",
                   "Its fields are: " + list_field_names(fields));
}

evenkeel_sample view_of(const SampleShape& shape) noexcept {
  return {shape.id.value(), shape.group, shape.prompt, shape.response};
}

}  // namespace evenkeel::c
