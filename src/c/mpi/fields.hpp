#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/c/evenkeel_mpi.h"

namespace evenkeel::c {

/// A field from C, completely validated.
struct CheckedField {
  FieldSpec spec;
  std::span<const std::byte> bytes;
  std::optional<SampleRows> samples;  ///< rows of each sample, if the kind is counted
};

/// Validates a field. Throws WrongArgument for NULL if data is required, for numbers that are not a dtype or
/// kind, and for negative numbers; InputError for offsets that do not fit its rows.
[[nodiscard]] CheckedField check_field(const evenkeel_field* field);

/// Returns a view of the column's memory for C.
[[nodiscard]] evenkeel_field view_of(const Column& column);

/// Returns the field with this index or name. Throws WrongArgument if the index is out of range, and
/// InputError, with the existing names, if the name does not exist. `where` names the owner of the fields in
/// errors.
[[nodiscard]] evenkeel_field field_at(std::span<const Column> fields, std::int64_t index);
[[nodiscard]] evenkeel_field find_field_by_name(std::span<const Column> fields, const char* name,
                                                const std::string& where);

[[nodiscard]] evenkeel_sample view_of(const SampleShape& shape) noexcept;

}  // namespace evenkeel::c
