#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/c/evenkeel_mpi.h"

namespace evenkeel::c {

/// A field passed from C that check_field() has accepted.
struct CheckedField {
  FieldSpec spec;
  std::span<const std::byte> bytes;
  std::optional<SampleRows> samples;  ///< rows of each sample, if the kind is counted
};

/// Validates a field. Throws WrongArgument if required data is NULL, if a number is not a dtype or a kind,
/// and for negative numbers; throws InputError for ranges, for offsets of a kind that is not counted, and for
/// offsets that do not match the rows.
[[nodiscard]] CheckedField check_field(const evenkeel_field* field);

/// Returns a C view of the column's memory.
[[nodiscard]] evenkeel_field view_of(const Column& column);

/// Returns the field with this index or name. Throws WrongArgument if the index is out of range, and
/// InputError listing the existing names if there is no field with this name. `where` names the owner of the
/// fields in errors.
[[nodiscard]] evenkeel_field field_at(std::span<const Column> fields, std::int64_t index);
[[nodiscard]] evenkeel_field find_field_by_name(std::span<const Column> fields, const char* name,
                                                const std::string& where);

[[nodiscard]] evenkeel_sample view_of(const SampleShape& shape) noexcept;

}  // namespace evenkeel::c
