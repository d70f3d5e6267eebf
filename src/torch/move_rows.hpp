#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace evenkeel {

/// Copies rows of x [rows, ...]: row source[i] to row target[i] of a tensor of `target_rows` rows, which has
/// `pad` elsewhere. Indices are int64 on any device; sources may repeat, targets must not. Differentiable as
/// often as wanted: the gradient of a row is the sum over all places it went to.
[[nodiscard]] at::Tensor move_rows(const at::Tensor& x, const at::Tensor& source, const at::Tensor& target,
                                   std::int64_t target_rows, double pad = 0);

}  // namespace evenkeel
