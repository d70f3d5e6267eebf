#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

#include "evenkeel/batch/dtype.hpp"

namespace evenkeel::safetensors {

inline constexpr std::string_view metadata_key = "__metadata__";
inline constexpr std::uint64_t max_header_bytes = 100'000'000;

/// The format's name of a dtype.
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
  }
  return "";
}

/// The bytes of a tensor; none when a dimension is negative or the product leaves 63 bits.
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
