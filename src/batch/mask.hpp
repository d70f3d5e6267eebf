#pragma once

#include <cstdint>
#include <span>

#include "evenkeel/base/ids.hpp"
#include "evenkeel/batch/field.hpp"

namespace evenkeel {

/// Functions on masks of any dtype. A row of one element is set if the element is not 0; both zeros of
/// floating-point types count as 0. A row of several elements is set if any of its bytes is not 0.

/// Returns the number of set rows in `rows`. Precondition: `rows` is within the column. O(rows).
[[nodiscard]] std::int64_t count_set(const Column& mask, RowRange rows) noexcept;

/// Writes one element per row to `out`: `value` if the row is set, and 0 otherwise. Preconditions: `rows` is
/// within the column; `out` has one element per row. O(rows).
void write_mask(const Column& mask, RowRange rows, float value, std::span<float> out) noexcept;

}  // namespace evenkeel
