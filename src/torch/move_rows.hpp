#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace evenkeel {

/// Copies rows of x [rows, ...]: row source[i] to row target[i] of a tensor of `target_rows` rows, whose
/// other rows are `pad`. Indices are int64 on any device; sources may repeat, targets must not.
/// Differentiable any number of times: the gradient of a row is the sum over all rows to which it was copied.
[[nodiscard]] at::Tensor move_rows(const at::Tensor& x, const at::Tensor& source, const at::Tensor& target,
                                   std::int64_t target_rows, double pad = 0);

}  // namespace evenkeel
