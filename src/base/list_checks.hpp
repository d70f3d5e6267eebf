#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <ranges>
#include <span>
#include <vector>

namespace evenkeel {

/// What preconditions say of lists; for assertions of the level `thorough`.

/// O(n).
[[nodiscard]] inline bool none_is_negative(std::span<const std::int64_t> values) {
  return std::ranges::all_of(values, [](std::int64_t value) { return value >= 0; });
}

/// Whether each of 0 .. size-1 stands in the list once, and nothing else. O(size).
[[nodiscard]] inline bool is_permutation(std::span<const std::int64_t> values, std::int64_t size) {
  if (std::ssize(values) != size) return false;
  std::vector<bool> seen(values.size());
  for (const std::int64_t value : values) {
    if (value < 0 || value >= size || seen[static_cast<std::size_t>(value)]) return false;
    seen[static_cast<std::size_t>(value)] = true;
  }
  return true;
}

/// Whether every value, a number or an id, is above the one before it. O(n).
template <std::ranges::forward_range Values>
[[nodiscard]] bool ascends_strictly(const Values& values) {
  return std::ranges::adjacent_find(values, std::ranges::greater_equal{}) == std::ranges::end(values);
}

}  // namespace evenkeel
