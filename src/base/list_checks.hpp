#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <ranges>
#include <span>
#include <vector>

namespace evenkeel {

/// Predicates for preconditions on lists, for assertions of level `thorough`.

/// Returns whether all values are at least 0. O(n).
[[nodiscard]] inline bool are_all_nonnegative(std::span<const std::int64_t> values) {
  return std::ranges::all_of(values, [](std::int64_t value) { return value >= 0; });
}

/// Returns whether the list contains each of 0 .. size-1 exactly once and no other values. O(size).
[[nodiscard]] inline bool is_permutation(std::span<const std::int64_t> values, std::int64_t size) {
  if (std::ssize(values) != size) return false;
  std::vector<bool> seen(values.size());
  for (const std::int64_t value : values) {
    if (value < 0 || value >= size || seen[static_cast<std::size_t>(value)]) return false;
    seen[static_cast<std::size_t>(value)] = true;
  }
  return true;
}

/// Returns whether every value, a number or an id, is greater than the previous one. O(n).
template <std::ranges::forward_range Values>
[[nodiscard]] bool is_strictly_ascending(const Values& values) {
  return std::ranges::adjacent_find(values, std::ranges::greater_equal{}) == std::ranges::end(values);
}

}  // namespace evenkeel
