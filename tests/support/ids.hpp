#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "base/id_range.hpp"

namespace evenkeel::testing_support {

/// Returns the ids with these numbers.
template <typename I>
std::vector<I> ids(std::initializer_list<std::int64_t> numbers) {
  std::vector<I> list;
  for (const std::int64_t number : numbers) list.emplace_back(number);
  return list;
}

/// Returns the ids 0..count-1.
template <typename I>
std::vector<I> all_ids(std::int64_t count) {
  std::vector<I> list;
  for (const I id : ids_below<I>(count)) list.push_back(id);
  return list;
}

}  // namespace evenkeel::testing_support
