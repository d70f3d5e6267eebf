#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "evenkeel/base/assertions.hpp"
#include "evenkeel/batch/dtype.hpp"
#include "evenkeel/batch/field.hpp"

namespace evenkeel {

/// Returns whether elements are integers. bool does not count as an integer type.
[[nodiscard]] constexpr bool is_integer(DType dtype) noexcept {
  switch (dtype) {
    case DType::uint8:
    case DType::int8:
    case DType::int16:
    case DType::uint16:
    case DType::int32:
    case DType::uint32:
    case DType::int64:
      return true;
    default:
      return false;
  }
}

/// Calls act(T{}) with the C++ type T of an integer dtype. Precondition: is_integer(dtype).
template <typename Act>
decltype(auto) with_integer_type(DType dtype, Act&& act) {
  EVENKEEL_PRECONDITION(cheap, is_integer(dtype), name_of(dtype));
  switch (dtype) {
    case DType::uint8:
      return act(std::uint8_t{});
    case DType::int8:
      return act(std::int8_t{});
    case DType::int16:
      return act(std::int16_t{});
    case DType::uint16:
      return act(std::uint16_t{});
    case DType::int32:
      return act(std::int32_t{});
    case DType::uint32:
      return act(std::uint32_t{});
    default:
      return act(std::int64_t{});
  }
}

/// The integers from `least` to `most`. Empty if `least` is greater than `most`, which is the default.
struct IntegerRange {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  std::int64_t most = std::numeric_limits<std::int64_t>::min();

  [[nodiscard]] constexpr bool empty() const noexcept { return least > most; }
  [[nodiscard]] constexpr bool contains(const IntegerRange& other) const noexcept {
    return other.empty() || (least <= other.least && other.most <= most);
  }
  /// Returns the smallest range that contains both ranges.
  [[nodiscard]] constexpr IntegerRange enclosing_range(const IntegerRange& other) const noexcept {
    return {std::min(least, other.least), std::max(most, other.most)};
  }
  friend constexpr bool operator==(const IntegerRange&, const IntegerRange&) = default;
};

/// Returns the values that elements of a dtype can have. Precondition: is_integer(dtype).
[[nodiscard]] inline IntegerRange range_of(DType dtype) {
  return with_integer_type(dtype, []<typename T>(T) {
    return IntegerRange{static_cast<std::int64_t>(std::numeric_limits<T>::min()),
                        static_cast<std::int64_t>(std::numeric_limits<T>::max())};
  });
}

/// Returns the range of the elements of an integer column; empty if the column is empty. O(elements).
[[nodiscard]] IntegerRange range_of_values(const Column& column);

}  // namespace evenkeel
