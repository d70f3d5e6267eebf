#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace evenkeel {

/// Copies rows of x [rows, ...] to a tensor with `target_rows` rows: row source[i] becomes row target[i]; all
/// other rows are filled with `pad`. Indices are int64 on any device; sources may repeat, targets must not.
/// Differentiable any number of times: the gradient of a row is the sum over all rows to which it was copied.
[[nodiscard]] at::Tensor move_rows(const at::Tensor& x, const at::Tensor& source, const at::Tensor& target,
                                   std::int64_t target_rows, double pad = 0);

}  // namespace evenkeel
