#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/c/evenkeel.h"

namespace evenkeel::c {

/// A field that C hands in, every part of it checked.
struct GivenField {
  FieldSpec spec;
  std::span<const std::byte> bytes;
  std::optional<SampleRows> samples;  ///< whose its rows are, of a counted kind
};

/// Throws WrongArgument for NULL where there must be something, for numbers that are no dtype or kind, and
/// for negative ones; InputError for offsets that are none of its rows.
[[nodiscard]] GivenField given(const evenkeel_field* field);

/// A column as C sees it, over the column's memory.
[[nodiscard]] evenkeel_field view_of(const Column& column);

/// The field of that number or that name. WrongArgument for a number that is none, InputError for a name that
/// is none, with those there are. `where` is what has the fields.
[[nodiscard]] evenkeel_field field_at(std::span<const Column> fields, std::int64_t index);
[[nodiscard]] evenkeel_field field_named(std::span<const Column> fields, const char* name,
                                         const std::string& where);

[[nodiscard]] evenkeel_sample view_of(const SampleShape& shape) noexcept;

}  // namespace evenkeel::c
