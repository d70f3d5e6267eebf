#pragma once

#include <cstdint>

#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// A transformer's shape, as far as its work depends on it.
struct ModelDescription {
  std::int64_t hidden_size = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;     ///< query heads
  std::int64_t kv_heads = 0;  ///< key/value heads; 0 means as many as query heads
  std::int64_t head_dim = 0;  ///< 0 means hidden_size / heads
  std::int64_t ffn_size = 0;  ///< inner width of one (gated) feed-forward block
  std::int64_t vocab_size = 0;
  std::int64_t active_experts = 1;  ///< experts a token passes through; 1 for a dense model

  friend bool operator==(const ModelDescription&, const ModelDescription&) = default;
};

/// The work of a sample of s tokens: linear * s + quadratic * s^2. Coefficients are integers, so that costs
/// add up exactly and the same on every rank.
struct CostModel {
  std::int64_t linear = 1;
  std::int64_t quadratic = 0;

  /// Throws LimitError when the cost of that many tokens is 2^62 or more. Precondition: tokens >= 0.
  [[nodiscard]] Cost operator()(std::int64_t tokens) const;

  /// Every token costs 1.
  [[nodiscard]] static constexpr CostModel tokens() noexcept { return {1, 0}; }
  /// verl's and ROLL's constant for a 7B model: 24576 s + s^2.
  [[nodiscard]] static constexpr CostModel flops_7b() noexcept { return {24576, 1}; }
  /// From a model's shape: per token, 2 FLOPs a weight used (attention projections, gated feed-forward of the
  /// active experts, output head); per causal score entry, 4 * heads * head_dim * layers FLOPs over s^2/2
  /// entries. In units of the quadratic coefficient, so that costs stay small; linear is rounded to the
  /// nearest unit. Throws InputError when a size that is needed is missing or negative.
  [[nodiscard]] static CostModel from_model(const ModelDescription& model);

  friend bool operator==(const CostModel&, const CostModel&) = default;
};

}  // namespace evenkeel
