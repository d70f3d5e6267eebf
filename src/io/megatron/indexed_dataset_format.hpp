#pragma once

#include <bit>
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "io/megatron/indexed_dataset.hpp"

/// The index: magic, version (u64), code of the dtype (u8), sequences (u64), documents + 1 (u64), then
/// lengths (i32), offsets in bytes (i64), starts of documents and their end (i64), perhaps modes (i8).
/// Nothing is aligned.
namespace evenkeel::indexed_dataset {

static_assert(std::endian::native == std::endian::little, "indexed datasets hold little-endian numbers");

inline constexpr std::string_view magic{"MMIDIDX\0\0", 9};
inline constexpr std::uint64_t version = 1;
inline constexpr std::int64_t version_at = 9;
inline constexpr std::int64_t dtype_at = 17;
inline constexpr std::int64_t sequences_at = 18;
inline constexpr std::int64_t documents_at = 26;
inline constexpr std::int64_t header_bytes = 34;

[[nodiscard]] inline std::filesystem::path with_ending(std::filesystem::path prefix, const char* ending) {
  prefix += ending;
  return prefix;
}

[[nodiscard]] constexpr bool is_float(IndexedDType dtype) noexcept {
  return dtype == IndexedDType::float64 || dtype == IndexedDType::float32;
}

/// Calls `act` with a value of the C++ type of an integer dtype. Precondition: it is one.
template <typename Act>
decltype(auto) with_integer_type(IndexedDType dtype, Act&& act) {
  switch (dtype) {
    case IndexedDType::uint8:
      return act(std::uint8_t{});
    case IndexedDType::int8:
      return act(std::int8_t{});
    case IndexedDType::int16:
      return act(std::int16_t{});
    case IndexedDType::uint16:
      return act(std::uint16_t{});
    case IndexedDType::int32:
      return act(std::int32_t{});
    default:
      return act(std::int64_t{});
  }
}

}  // namespace evenkeel::indexed_dataset
