#pragma once

#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "c/failures.hpp"
#include "evenkeel/c/base.h"

struct evenkeel_arrays {
  struct Array {
    std::string name;
    evenkeel_dtype dtype;
    std::vector<std::int64_t> shape;
    std::variant<std::vector<std::int32_t>, std::vector<std::int64_t>, std::vector<float>,
                 std::vector<double>>
        values;
  };
  std::vector<Array> arrays;

  /// Adds an array with the values of a list. With `shape`, the array has this shape; otherwise, it has one
  /// dimension.
  template <typename T>
  void add(std::string name, std::vector<T> values) {
    std::vector<std::int64_t> shape{std::ssize(values)};
    add(std::move(name), std::move(values), std::move(shape));
  }
  template <typename T>
  void add(std::string name, std::vector<T> values, std::vector<std::int64_t> shape) {
    constexpr evenkeel_dtype dtype = std::is_same_v<T, std::int32_t>   ? EVENKEEL_INT32
                                     : std::is_same_v<T, std::int64_t> ? EVENKEEL_INT64
                                     : std::is_same_v<T, float>        ? EVENKEEL_FLOAT32
                                                                       : EVENKEEL_FLOAT64;
    arrays.push_back({std::move(name), dtype, std::move(shape), std::move(values)});
  }
  /// Adds an array with of(entry) for every entry of a list.
  template <typename List, typename Of>
  void add_mapped(std::string name, const List& list, Of of) {
    std::vector<std::decay_t<std::invoke_result_t<Of, decltype(*std::begin(list))>>> values;
    values.reserve(list.size());
    for (const auto& each : list) values.push_back(std::invoke(of, each));
    add(std::move(name), std::move(values));
  }
  /// Adds a zero-dimensional array, which contains one number.
  void add(std::string name, std::int64_t value) {
    add(std::move(name), std::vector<std::int64_t>{value}, std::vector<std::int64_t>{});
  }
};

namespace evenkeel::c {

/// Creates an evenkeel_arrays, calls fill() on it, and stores it in *arrays. Returns the status.
template <typename Fill>
evenkeel_status return_arrays(evenkeel_arrays** arrays, Fill fill) noexcept {
  return return_new(arrays, "arrays", [&] {
    auto made = std::make_unique<evenkeel_arrays>();
    fill(*made);
    return made.release();
  });
}

}  // namespace evenkeel::c
