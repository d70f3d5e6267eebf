#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "evenkeel/batch/dtype.hpp"

namespace evenkeel::safetensors {

inline constexpr std::string_view metadata_key = "__metadata__";
inline constexpr std::uint64_t max_header_bytes = 100'000'000;

/// Returns the name of a dtype in the safetensors format.
[[nodiscard]] constexpr std::string_view name_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::boolean:
      return "BOOL";
    case DType::uint8:
      return "U8";
    case DType::int32:
      return "I32";
    case DType::int64:
      return "I64";
    case DType::float16:
      return "F16";
    case DType::bfloat16:
      return "BF16";
    case DType::float32:
      return "F32";
    case DType::float64:
      return "F64";
    case DType::int8:
      return "I8";
    case DType::int16:
      return "I16";
    case DType::uint16:
      return "U16";
    case DType::uint32:
      return "U32";
  }
  return "";
}

/// Maximum number of elements of a tensor. With 8 bytes each, their total size still fits in 63 bits.
inline constexpr std::int64_t max_elements = std::int64_t{1} << 59;

/// Returns the bits per element of the dtype with this name in the safetensors format, or nullopt if the
/// format does not define such a dtype.
[[nodiscard]] constexpr std::optional<std::int64_t> parse_dtype_bits(std::string_view name) noexcept {
  constexpr std::array<std::pair<std::string_view, std::int64_t>, 22> all{
      {{"BOOL", 8},        {"U8", 8},      {"I8", 8},      {"U16", 16},    {"I16", 16},    {"U32", 32},
       {"I32", 32},        {"U64", 64},    {"I64", 64},    {"F16", 16},    {"BF16", 16},   {"F32", 32},
       {"F64", 64},        {"C64", 64},    {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
       {"F8_E5M2FNUZ", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4}}};
  for (const auto& [known, bits] : all) {
    if (known == name) return bits;
  }
  return std::nullopt;
}

/// Returns the number of bytes of a tensor whose elements have `bits` bits; nullopt if this is not a whole
/// number of bytes, or if the product of the nonzero dimensions exceeds max_elements.
[[nodiscard]] constexpr std::optional<std::int64_t> bytes_of(std::int64_t bits,
                                                             std::span<const std::int64_t> shape) noexcept {
  std::int64_t elements = 1;
  bool is_empty = false;
  for (const std::int64_t dimension : shape) {
    is_empty = is_empty || dimension == 0;
    if (dimension > 0 && elements > max_elements / dimension) return std::nullopt;
    if (dimension > 0) elements *= dimension;
  }
  if (is_empty) return 0;
  if (bits < 8 && elements * bits % 8 != 0) return std::nullopt;
  return bits < 8 ? elements * bits / 8 : elements * (bits / 8);
}

/// Returns the number of bytes of a tensor; nullopt if a dimension is negative, or if the dimensions before
/// the first 0 require 2^63 bytes or more.
[[nodiscard]] constexpr std::optional<std::int64_t> bytes_of(DType dtype,
                                                             std::span<const std::int64_t> shape) noexcept {
  auto bytes = static_cast<std::int64_t>(size_of(dtype));
  for (const std::int64_t dimension : shape) {
    if (dimension < 0) return std::nullopt;
    if (dimension > 0 && bytes > std::numeric_limits<std::int64_t>::max() / dimension) return std::nullopt;
    bytes *= dimension;
  }
  return bytes;
}

}  // namespace evenkeel::safetensors
