#pragma once

#include <cstdint>
#include <ranges>
#include <vector>

#include "evenkeel/base/ids.hpp"

namespace evenkeel {

/// Function object that converts a number to an id.
template <typename I>
struct MakeId {
  [[nodiscard]] constexpr I operator()(typename I::value_type number) const noexcept { return I{number}; }
};

/// Returns the ids from `begin` up to, but not including, `end`.
template <typename I>
[[nodiscard]] constexpr auto ids_between(I begin, I end) noexcept {
  return std::views::iota(begin.value(), end.value()) | std::views::transform(MakeId<I>{});
}

/// Returns the ids 0 .. count-1.
template <typename I>
[[nodiscard]] constexpr auto ids_below(typename I::value_type count) noexcept {
  return ids_between(I{0}, I{count});
}

/// Converts ids to numbers.
template <std::ranges::sized_range Ids>
[[nodiscard]] std::vector<std::int64_t> numbers_of(const Ids& ids) {
  std::vector<std::int64_t> numbers;
  numbers.reserve(std::ranges::size(ids));
  for (const auto id : ids) numbers.push_back(id.value());
  return numbers;
}

}  // namespace evenkeel
