#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include "io/jsonl/schema.hpp"

namespace evenkeel {

/// A field and what is open about it: one entry of a schema.
struct FieldView {
  FieldSpec spec;
  FieldOrigin origin;
  bool kind_open = false;
  bool element_open = false;
  std::optional<std::int64_t> wide_integer = {};  ///< the first line with an integer that float32 rounds
};

/// Adds an entry; names are added in order.
void append(JsonlSchema& schema, FieldView field);

[[nodiscard]] FieldView field_view(const JsonlSchema& schema, std::size_t index);

/// The dtype that holds the elements of both; none when booleans meet numbers.
[[nodiscard]] std::optional<DType> join(DType a, DType b);

/// Whether float32 holds an integer of this magnitude exactly.
[[nodiscard]] constexpr bool is_exact_in_float32(std::uint64_t magnitude) noexcept {
  constexpr int significant_bits = std::numeric_limits<float>::digits;
  constexpr std::uint64_t most_exact = std::uint64_t{1} << significant_bits;  // as all integers below it are
  return magnitude <= most_exact ||
         std::bit_width(magnitude >> std::countr_zero(magnitude)) <= significant_bits;
}
[[nodiscard]] constexpr bool is_exact_in_float32(std::int64_t value) noexcept {
  const auto bits = static_cast<std::uint64_t>(value);
  return is_exact_in_float32(value < 0 ? -bits : bits);
}

/// What to do about a field of which float32 would round an integer.
inline constexpr const char* wide_integer_hint =
    "Write integers only, or leave the field out; a number with a point, such as 5.0, may be rounded";

}  // namespace evenkeel
