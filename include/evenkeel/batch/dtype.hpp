#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace evenkeel {

/// Element types of a field. Half-precision values are only moved, as bits; nothing is computed with them.
enum class DType : std::uint8_t {
  boolean,
  uint8,
  int32,
  int64,
  float16,
  bfloat16,
  float32,
  float64,
  int8,
  int16,
  uint16,
  uint32,
};

/// All dtypes, in the order of their values. The values are not written to files; new ones may only be
/// appended.
inline constexpr std::array all_dtypes{DType::boolean, DType::uint8,    DType::int32,   DType::int64,
                                       DType::float16, DType::bfloat16, DType::float32, DType::float64,
                                       DType::int8,    DType::int16,    DType::uint16,  DType::uint32};

/// Returns the number of bytes of one element.
[[nodiscard]] constexpr std::size_t size_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::boolean:
    case DType::uint8:
    case DType::int8:
      return 1;
    case DType::int16:
    case DType::uint16:
    case DType::float16:
    case DType::bfloat16:
      return 2;
    case DType::int32:
    case DType::uint32:
    case DType::float32:
      return 4;
    case DType::int64:
    case DType::float64:
      return 8;
  }
  return 0;
}

/// Returns the name used in configurations and error messages, such as "bfloat16".
[[nodiscard]] std::string_view name_of(DType dtype) noexcept;

/// The dtype whose C++ element type is T: bool, an integer of 8 to 64 bits other than uint64_t, float or
/// double.
template <typename T>
inline constexpr DType dtype_of = [] { static_assert(sizeof(T) == 0, "no dtype has this element type"); }();
template <>
inline constexpr DType dtype_of<bool> = DType::boolean;
template <>
inline constexpr DType dtype_of<std::uint8_t> = DType::uint8;
template <>
inline constexpr DType dtype_of<std::int8_t> = DType::int8;
template <>
inline constexpr DType dtype_of<std::int16_t> = DType::int16;
template <>
inline constexpr DType dtype_of<std::uint16_t> = DType::uint16;
template <>
inline constexpr DType dtype_of<std::uint32_t> = DType::uint32;
template <>
inline constexpr DType dtype_of<std::int32_t> = DType::int32;
template <>
inline constexpr DType dtype_of<std::int64_t> = DType::int64;
template <>
inline constexpr DType dtype_of<float> = DType::float32;
template <>
inline constexpr DType dtype_of<double> = DType::float64;

/// How a JSON Lines file represents a field, if this cannot be inferred from its lists.
enum class LineFormat : std::uint8_t {
  rows,   ///< [row, row, ...] with any number of rows per sample: FieldKind::rows
  text,   ///< a string: FieldKind::text
  bytes,  ///< base64: FieldKind::bytes
  axes,   ///< [[x of token 0, x of token 1, ...], [y of token 0, ...]]: one row with all axes per token
  runs,   ///< [[value, count], ...]: the value for that number of tokens, run after run
};

[[nodiscard]] std::string_view name_of(LineFormat format) noexcept;

}  // namespace evenkeel
