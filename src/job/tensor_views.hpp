#pragma once

#include <span>
#include <string>
#include <vector>

#include "evenkeel/batch/field.hpp"
#include "io/safetensors/safetensors.hpp"

namespace evenkeel {

/// Values as a one-dimensional tensor. Not owned.
template <typename T>
[[nodiscard]] TensorView view_of(std::string name, std::span<const T> values) {
  return {std::move(name), dtype_of<T>, {static_cast<std::int64_t>(values.size())}, std::as_bytes(values)};
}

/// A column as a tensor of [rows, trailing dimensions]. Not owned.
[[nodiscard]] inline TensorView view_of(const Column& column) {
  std::vector<std::int64_t> shape{column.rows()};
  shape.insert(shape.end(), column.spec().trailing.begin(), column.spec().trailing.end());
  return {column.spec().name, column.spec().dtype, std::move(shape), column.bytes()};
}

}  // namespace evenkeel
