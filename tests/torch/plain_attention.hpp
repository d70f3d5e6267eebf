#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "evenkeel/torch/prefix_grouper.hpp"

namespace evenkeel::testing_support {

/// Plain causal attention, last query at last key: q [x, h, queries, d], k and v [x, hkv, keys, d] with hkv
/// dividing h, key_mask bool [x, keys] -> [x, queries, h, d].
inline at::Tensor plain_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                  const at::Tensor& key_mask, double scale) {
  const std::int64_t repeats = q.size(1) / k.size(1);
  const at::Tensor keys = k.repeat_interleave(repeats, 1);
  const at::Tensor values = v.repeat_interleave(repeats, 1);
  const at::Tensor hidden = causal_attention_mask(key_mask, q.size(2)).logical_not();
  const at::Tensor scores = at::matmul(q, keys.transpose(2, 3)) * scale;
  return at::matmul(scores.masked_fill(hidden, -INFINITY).softmax(-1), values).transpose(1, 2);
}

/// Queries, keys and values of ragged rows [rows, heads, d], leaves of a graph, and weights that turn an
/// output into a loss.
struct RaggedTensors {
  at::Tensor q, k, v, weights;

  RaggedTensors(std::int64_t rows, std::int64_t heads, std::int64_t kv_heads, std::int64_t dim,
                at::ScalarType dtype)
      : q(random({rows, heads, dim}, dtype)),
        k(random({rows, kv_heads, dim}, dtype)),
        v(random({rows, kv_heads, dim}, dtype)),
        weights(random({rows, heads, dim}, dtype)) {
    for (at::Tensor* leaf : {&q, &k, &v}) leaf->requires_grad_();
  }
  /// Separate leaves with the same numbers.
  [[nodiscard]] RaggedTensors copy() const {
    RaggedTensors other = *this;
    for (at::Tensor* leaf : {&other.q, &other.k, &other.v}) *leaf = leaf->detach().clone().requires_grad_();
    return other;
  }

 private:
  static at::Tensor random(at::IntArrayRef shape, at::ScalarType dtype) {
    return at::rand(shape, at::kDouble).mul(4).sub(2).to(dtype);
  }
};

/// Returns the result of attention without sharing: each sample separately, after its own copy of the shared
/// tokens. The result contains shared rows once (all copies are equal); for gradients, each copy gets an
/// equal share of the row.
inline at::Tensor repeated_attention(const RaggedTensors& ragged,
                                     const std::vector<std::vector<std::int64_t>>& samples, double scale) {
  at::Tensor copies = at::zeros({ragged.q.size(0)}, at::kDouble);
  for (const auto& rows : samples) {
    for (const std::int64_t row : rows) copies[row] += 1;
  }
  at::Tensor out = at::zeros_like(ragged.weights);
  for (const auto& rows : samples) {
    const auto length = static_cast<std::int64_t>(rows.size());
    if (length == 0) continue;
    const at::Tensor index = at::tensor(at::ArrayRef<std::int64_t>(rows), at::kLong);
    const auto heads_first = [&](const at::Tensor& x) {
      return x.index_select(0, index).transpose(0, 1).unsqueeze(0);
    };
    const at::Tensor own = plain_attention(heads_first(ragged.q), heads_first(ragged.k),
                                           heads_first(ragged.v), at::ones({1, length}, at::kBool), scale)[0];
    const at::Tensor share = copies.index_select(0, index).reciprocal().to(own.dtype()).view({-1, 1, 1});
    out = out.index_add(0, index, own * share);
  }
  return out;
}

/// Within 1e-10 in float64 and 1e-5 in float32 (relative to the largest number if that is above 1).
inline bool close(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes()) return false;
  if (a.numel() == 0) return true;
  const double scale = std::max(1.0, b.abs().max().item<double>());
  const double error = (a - b).abs().max().item<double>();
  return error <= scale * (b.scalar_type() == at::kDouble ? 1e-10 : 1e-5);
}

/// Gradients of leaves that nothing used are undefined tensors.
inline at::Tensor gradient_of(const at::Tensor& leaf) {
  return leaf.grad().defined() ? leaf.grad() : at::zeros_like(leaf);
}

}  // namespace evenkeel::testing_support
