#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace evenkeel {

/// Element type of a value: a number that is part of the store's format, and never changes its meaning.
using ValueType = std::uint8_t;

/// Element type and shape of a value. The value's bytes are its elements in C order.
struct TensorForm {
  ValueType type = 0;
  std::vector<std::int64_t> shape;

  friend bool operator==(const TensorForm&, const TensorForm&) = default;
};

/// Returns the type with this name: a name of safetensors, or "BYTES" for bytes without a meaning here.
/// Returns nullopt if there is none.
[[nodiscard]] std::optional<ValueType> type_of_name(std::string_view name) noexcept;
/// Precondition: the type is one of type_of_name().
[[nodiscard]] std::string_view name_of_type(ValueType type) noexcept;
[[nodiscard]] bool is_type(std::int64_t number) noexcept;
[[nodiscard]] std::int64_t bytes_of_element(ValueType type) noexcept;
/// Returns the number of bytes of a value; nullopt if a dimension is negative, or the number exceeds 2^48.
[[nodiscard]] std::optional<std::int64_t> bytes_of(const TensorForm& form) noexcept;
/// Maximum number of dimensions of a value.
inline constexpr std::size_t max_value_axes = 32;

}  // namespace evenkeel
