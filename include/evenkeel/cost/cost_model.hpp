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
  std::int64_t shared_experts = 0;   ///< experts that every token passes through in addition
  std::int64_t shared_ffn_size = 0;  ///< inner width of one shared expert; 0 means ffn_size
  std::int64_t sliding_window = 0;   ///< tokens a query sees, itself included, in every layer; 0 means all
  bool backward = false;             ///< count the backward pass too

  friend bool operator==(const ModelDescription&, const ModelDescription&) = default;
};

/// The work of a sample of s tokens: linear * s + quadratic * s^2, for causal attention to all earlier
/// tokens. With a sliding window of w tokens, the s^2 of a longer sample becomes w^2 + 2 w (s - w): the same
/// up to w, linear from there. Coefficients are integers, so that costs add up exactly and are the same on
/// every rank. Context parallelism divides the same work among several ranks and does not change it.
struct CostModel {
  std::int64_t linear = 1;
  std::int64_t quadratic = 0;
  std::int64_t window = 0;  ///< 0: attention reaches all tokens

  /// Throws LimitError if the cost of that many tokens is 2^62 or more. Precondition: tokens >= 0.
  [[nodiscard]] Cost operator()(std::int64_t tokens) const;

  /// Every token costs 1.
  [[nodiscard]] static constexpr CostModel tokens() noexcept { return {1, 0}; }
  /// verl's and ROLL's constant for a 7B model: 24576 s + s^2.
  [[nodiscard]] static constexpr CostModel flops_7b() noexcept { return {24576, 1}; }
  /// From a model's shape: per token, 2 FLOPs a weight used (attention projections, gated feed-forward of the
  /// active and shared experts, output head); per causal score entry, 4 * heads * head_dim * layers FLOPs
  /// over s^2/2 entries. The backward pass is twice that, and attention computes its scores again there (5
  /// products instead of the forward's 2), so that linear work counts 6/7 of what it does without a backward
  /// pass. In units of the quadratic coefficient, so that costs stay small; linear is rounded to the nearest
  /// unit. Throws InputError if a required size is missing or negative.
  [[nodiscard]] static CostModel from_model(const ModelDescription& model);

  friend bool operator==(const CostModel&, const CostModel&) = default;
};

/// The work of samples that share a prefix, counting the prefix once: its own attention, and each suffix's to
/// the prefix and to itself. Never more than that of separate samples, and the same for one sample.
/// Precondition: no length is negative. Throws LimitError if it is 2^62 or more.
///
/// Example: s^2, prefix 3, suffixes 1 and 2: 9 + (16 - 9) + (25 - 9) = 32; separately they cost 16 + 25.
[[nodiscard]] Cost cost_of_group(const CostModel& model, std::int64_t prefix,
                                 std::span<const std::int64_t> suffixes);

/// What running a micro-batch on several ranks costs in addition to the work, in the cost model's units on
/// one rank.
///
/// On g ranks a micro-batch of work W, of which the part A is attention over S tokens, takes
///
///     overhead + (W + max(0, c(g) (g-1) S - overlap A)) / g
///
/// where c(1) = 0. Each rank passes the keys and values of its tokens to the g-1 others while it computes
/// attention.
struct CommunicationCost {
  Cost inside_node = 0;    ///< c(g) up to `ranks_per_node`: a token's keys and values to the next rank
  Cost between_nodes = 0;  ///< c(g) of a larger group
  std::int64_t ranks_per_node = 1;
  std::int64_t overlap = 1000;  ///< how much of the attention work hides it, in thousandths: 0 .. 1000
  Cost overhead = 0;            ///< of any micro-batch

  /// c(size). Precondition: size >= 1.
  [[nodiscard]] constexpr Cost per_hop(std::int64_t size) const noexcept {
    if (size == 1) return 0;
    return size <= ranks_per_node ? inside_node : between_nodes;
  }
  friend constexpr bool operator==(const CommunicationCost&, const CommunicationCost&) = default;
};

/// What the time of a micro-batch depends on: sums over its samples.
struct ContextWork {
  std::int64_t rows = 0;  ///< tokens, shared ones once
  Cost work = 0;          ///< of all kinds
  Cost attention = 0;     ///< the part of it that hides communication

  constexpr ContextWork& operator+=(const ContextWork& other) noexcept {
    rows += other.rows;
    work += other.work;
    attention += other.attention;
    return *this;
  }
  friend constexpr bool operator==(const ContextWork&, const ContextWork&) = default;
};

/// The communication cost of a micro-batch on `size` ranks, summed over all of them, before any of it is
/// hidden.
[[nodiscard]] constexpr Cost communication_of(std::int64_t rows, std::int64_t size,
                                              const CommunicationCost& cost) noexcept {
  return cost.per_hop(size) * (size - 1) * rows;
}

/// The part of it that nothing hides: 0 or more.
[[nodiscard]] constexpr Cost exposed_communication(const ContextWork& work, std::int64_t size,
                                                   const CommunicationCost& cost) noexcept {
  const Cost hidden = work.attention / 1000 * cost.overlap + work.attention % 1000 * cost.overlap / 1000;
  const Cost exposed = communication_of(work.rows, size, cost) - hidden;
  return exposed > 0 ? exposed : 0;
}

/// The time of a micro-batch on `size` ranks, rounded up. Precondition: size >= 1.
///
/// Example: 24576 s + s^2, inside_node 333, s = 8192 on 2 ranks: 2.7 M of communication, hidden by 67 M of
/// attention, so (201 M + 67 M) / 2.
[[nodiscard]] constexpr Cost time_on(const ContextWork& work, std::int64_t size,
                                     const CommunicationCost& cost) noexcept {
  return cost.overhead + (work.work + exposed_communication(work, size, cost) + size - 1) / size;
}

}  // namespace evenkeel
