#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

#include "evenkeel/batch/dtype.hpp"
#include "io/numpy/npy.hpp"

namespace evenkeel {

/// Converts elements, unaligned on both sides; returns how many of them fit, from the first on.
template <typename From, typename To>
[[nodiscard]] std::size_t convert_elements(std::span<const char> from, std::byte* to) {
  const std::size_t count = from.size() / sizeof(From);
  for (std::size_t i = 0; i < count; ++i) {
    From value{};
    std::memcpy(&value, from.data() + i * sizeof value, sizeof value);
    if constexpr (!std::is_same_v<From, To>) {
      if (!std::in_range<To>(value)) return i;
    }
    const To converted = static_cast<To>(value);
    std::memcpy(to + i * sizeof converted, &converted, sizeof converted);
  }
  return count;
}

template <typename From>
[[nodiscard]] std::size_t convert_elements_to(DType dtype, std::span<const char> from, std::byte* to) {
  if (dtype == DType::int32) return convert_elements<From, std::int32_t>(from, to);
  return convert_elements<From, std::int64_t>(from, to);
}

/// From an integer type to int32 or int64; returns how many elements fit. Precondition:
/// is_lossless(from_dtype, to_dtype).
[[nodiscard]] inline std::size_t convert_integers(NpyDType from_dtype, DType to_dtype,
                                                  std::span<const char> from, std::byte* to) {
  switch (from_dtype) {
    case NpyDType::uint8:
      return convert_elements_to<std::uint8_t>(to_dtype, from, to);
    case NpyDType::int8:
      return convert_elements_to<std::int8_t>(to_dtype, from, to);
    case NpyDType::int16:
      return convert_elements_to<std::int16_t>(to_dtype, from, to);
    case NpyDType::uint16:
      return convert_elements_to<std::uint16_t>(to_dtype, from, to);
    case NpyDType::int32:
      return convert_elements_to<std::int32_t>(to_dtype, from, to);
    case NpyDType::uint32:
      return convert_elements_to<std::uint32_t>(to_dtype, from, to);
    case NpyDType::int64:
      return convert_elements_to<std::int64_t>(to_dtype, from, to);
    default:
      return convert_elements_to<std::uint64_t>(to_dtype, from, to);
  }
}

}  // namespace evenkeel
