#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "evenkeel/c/prefix.h"

namespace evenkeel::test {

/// Returns the array with this name.
inline evenkeel_array array_named(const evenkeel_arrays* arrays, const std::string& name) {
  evenkeel_array array{};
  for (std::int64_t i = 0; i < evenkeel_arrays_count(arrays); ++i) {
    EXPECT_EQ(evenkeel_arrays_at(arrays, i, &array), EVENKEEL_OK);
    if (name == array.name) return array;
  }
  ADD_FAILURE() << "no array " << name;
  return {};
}

template <typename T = std::int64_t>
std::vector<T> values_of(const evenkeel_arrays* arrays, const std::string& name) {
  const evenkeel_array array = array_named(arrays, name);
  std::int64_t size = array.data == nullptr ? 0 : 1;
  for (std::int64_t d = 0; d < array.num_dimensions; ++d) size *= array.shape[d];
  const T* const first = static_cast<const T*>(array.data);
  return {first, first + size};
}

}  // namespace evenkeel::test
