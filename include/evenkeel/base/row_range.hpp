#pragma once

#include <cstdint>

namespace evenkeel {

/// Half-open range of rows.
struct RowRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  [[nodiscard]] constexpr std::int64_t size() const noexcept { return end - begin; }
  [[nodiscard]] constexpr bool empty() const noexcept { return begin == end; }
  friend constexpr bool operator==(RowRange, RowRange) = default;
};

}  // namespace evenkeel
