#pragma once

#include <cstdint>
#include <span>

namespace evenkeel {

/// The work of one item that is balanced, in the units of a cost model. Never negative.
using Cost = std::int64_t;

/// A transformer's shape, as far as its work depends on it.
struct ModelDescription {
  std::int64_t hidden_size = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;     ///< query heads
  std::int64_t kv_heads = 0;  ///< key/value heads; 0 means as many as query heads
  std::int64_t head_dim = 0;  ///< 0 means hidden_size / heads
  std::int64_t ffn_size = 0;  ///< inner width of one (gated) feed-forward block
  std::int64_t vocab_size = 0;
  std::int64_t active_experts = 1;   ///< routed experts a token passes through; 1 for a dense model
  std::int64_t shared_experts = 0;   ///< experts that every token passes through beside those
  std::int64_t shared_ffn_size = 0;  ///< inner width of one shared expert; 0 means ffn_size
  std::int64_t sliding_window = 0;   ///< tokens a query sees, itself included, in every layer; 0 means all
  bool backward = false;             ///< count the backward pass too

  friend bool operator==(const ModelDescription&, const ModelDescription&) = default;
};

/// The work of a sample of s tokens: linear * s + quadratic * s^2, where attention is causal and reaches all
/// tokens before. With a sliding window of w tokens, the s^2 of a longer sample becomes w^2 + 2 w (s - w):
/// the same up to w, a straight line from there. Coefficients are integers, so that costs add up exactly and
/// the same on every rank. Context parallelism gives the same work to several ranks and does not change it.
struct CostModel {
  std::int64_t linear = 1;
  std::int64_t quadratic = 0;
  std::int64_t window = 0;  ///< 0: attention reaches all tokens

  /// Throws LimitError when the cost of that many tokens is 2^62 or more. Precondition: tokens >= 0.
  [[nodiscard]] Cost operator()(std::int64_t tokens) const;

  /// Every token costs 1.
  [[nodiscard]] static constexpr CostModel tokens() noexcept { return {1, 0}; }
  /// verl's and ROLL's constant for a 7B model: 24576 s + s^2.
  [[nodiscard]] static constexpr CostModel flops_7b() noexcept { return {24576, 1}; }
  /// From a model's shape: per token, 2 FLOPs a weight used (attention projections, gated feed-forward of the
  /// active and shared experts, output head); per causal score entry, 4 * heads * head_dim * layers FLOPs
  /// over s^2/2 entries. The backward pass is twice that, and attention works out its scores once more there
  /// (5 products for the forward's 2), so that linear work weighs 6/7 of what it does without. In units of
  /// the quadratic coefficient, so that costs stay small; linear is rounded to the nearest unit. Throws
  /// InputError when a size that is needed is missing or negative.
  [[nodiscard]] static CostModel from_model(const ModelDescription& model);

  friend bool operator==(const CostModel&, const CostModel&) = default;
};

/// The work of samples that share a prefix, with the prefix once: its own attention, and each suffix's to the
/// prefix and to itself. Never more than that of the samples apart, and the same for one sample.
/// Preconditions: no length is negative. Throws LimitError when it is 2^62 or more.
///
/// Example: s^2, prefix 3, suffixes 1 and 2: 9 + (16 - 9) + (25 - 9) = 32, where apart they cost 16 + 25.
[[nodiscard]] Cost cost_of_group(const CostModel& model, std::int64_t prefix,
                                 std::span<const std::int64_t> suffixes);

}  // namespace evenkeel
