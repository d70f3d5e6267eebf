#pragma once

#include <cstdint>
#include <span>

#include "evenkeel/base/ids.hpp"
#include "evenkeel/batch/field.hpp"

namespace evenkeel {

/// Masks of every dtype are read alike: a row is set when it is not 0. (A real 0 may have either sign. A row
/// of several elements is set when any of its bytes is not 0.)

/// How many of a mask's rows in `rows` are set. Precondition: they lie within the column. O(rows).
[[nodiscard]] std::int64_t count_set(const Column& mask, RowRange rows) noexcept;

/// Writes `value` where a row is set and 0 where it is not, one element a row. Precondition: as above, and
/// `out` has as many elements as there are rows. O(rows).
void write_where_set(const Column& mask, RowRange rows, float value, std::span<float> out) noexcept;

}  // namespace evenkeel
