#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "evenkeel/pack/prefix/packed.hpp"

namespace evenkeel {

/// Returns a copy of the numbers as an int64 tensor on the CPU, for example for index_select by
/// LocalPredictions.
[[nodiscard]] at::Tensor to_tensor(std::span<const std::int64_t> numbers);

/// Reorders the rows of all CP ranks, [cp * local_rows, ...] as returned by an all-gather, to the order of
/// the whole packed micro-batch, [num_rows, ...]. Differentiable.
[[nodiscard]] at::Tensor merge_cp_rows(const PackedLayout& layout, const at::Tensor& gathered);

/// Returns a bool tensor [queries, keys], for functions that need a full mask. Element (q, k) is true if
/// `tin[k] <= tin[q] < tout[k]`.
[[nodiscard]] at::Tensor attention_mask(const AncestorIntervals& queries, const AncestorIntervals& keys);

/// Varlen attention over packed segments that share prefixes, on one CP rank, using the kernel that a model
/// already has. Works for groups and for trees. Differentiable, with exact gradients: the gradients of all
/// segments that read a row are added up.
class PackedAttention {
 public:
  /// Copies the data that it needs from the plan: the padded pair, so that queries stay in place.
  explicit PackedAttention(const PrefixAttentionPlan& plan);

  /// Calls
  ///
  ///     attention(q [local rows, h, d], k, v [gathered rows, hkv, d], cu_seqlens_q, cu_seqlens_k,
  ///               max_seqlen_q, max_seqlen_k, args...) -> [local rows, h, d]
  ///
  /// like Flash Attention's varlen functions; cu_seqlens are int32 tensors, maxima int64. `attention` must be
  /// causal with each entry's last query aligned to its last key. q has the rank's rows; k and v are
  /// [num_rows, hkv, d], with the rows of the whole micro-batch (merge_cp_rows).
  template <typename Attention, typename... Args>
  [[nodiscard]] at::Tensor forward(Attention&& attention, const at::Tensor& q, const at::Tensor& k,
                                   const at::Tensor& v, const Args&... args) const {
    return attention(q, gather_rows(k), gather_rows(v), cu_seqlens_q_.to(q.device()),
                     cu_seqlens_k_.to(q.device()), max_seqlen_q_, max_seqlen_k_, args...);
  }

 private:
  [[nodiscard]] at::Tensor gather_rows(const at::Tensor& rows) const;

  at::Tensor key_rows_;
  at::Tensor cu_seqlens_q_;
  at::Tensor cu_seqlens_k_;
  std::int64_t max_seqlen_q_;
  std::int64_t max_seqlen_k_;
};

}  // namespace evenkeel
