#pragma once

#include <cstdint>
#include <span>

namespace evenkeel {

/// The work of an item, in the units of a cost model: the quantity that is balanced. Never negative.
using Cost = std::int64_t;

/// The properties of a transformer that determine its work.
struct ModelDescription {
  std::int64_t hidden_size = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;     ///< number of query heads
  std::int64_t kv_heads = 0;  ///< number of key/value heads; 0 means the number of query heads
  std::int64_t head_dim = 0;  ///< 0 means hidden_size / heads
  std::int64_t ffn_size = 0;  ///< inner width of one (gated) feed-forward block
  std::int64_t vocab_size = 0;
  /// Number of routed experts that a token passes through; 1 for a dense model.
  std::int64_t active_experts = 1;
  std::int64_t shared_experts = 0;   ///< number of additional experts that every token passes through
  std::int64_t shared_ffn_size = 0;  ///< inner width of one shared expert; 0 means ffn_size
  /// Number of tokens that a query sees in every layer, including itself; 0 means all.
  std::int64_t sliding_window = 0;
  bool backward = false;  ///< whether to count the backward pass, too

  friend bool operator==(const ModelDescription&, const ModelDescription&) = default;
};

/// The work of a sample of s tokens: linear * s + quadratic * s^2, for causal attention to all earlier
/// tokens. With a sliding window of w tokens, s^2 is replaced by w^2 + 2 w (s - w) if s > w, so the work
/// grows linearly beyond w. Coefficients are integers, so costs add up exactly and are the same on every
/// rank. Context parallelism divides the same work among several ranks and does not change it.
struct CostModel {
  std::int64_t linear = 1;
  std::int64_t quadratic = 0;
  std::int64_t window = 0;  ///< 0 if attention reaches all tokens

  /// Throws LimitError if the cost of this number of tokens is 2^62 or more. Precondition: tokens >= 0.
  [[nodiscard]] Cost operator()(std::int64_t tokens) const;

  /// Returns a model in which every token costs 1.
  [[nodiscard]] static constexpr CostModel tokens() noexcept { return {1, 0}; }
  /// Returns the model that verl and ROLL use for 7B models: 24576 s + s^2.
  [[nodiscard]] static constexpr CostModel flops_7b() noexcept { return {24576, 1}; }
  /// Derives the model from a transformer's shape. Each token costs 2 FLOPs per weight used (attention
  /// projections, gated feed-forward blocks of the active and shared experts, output head). Each causal score
  /// entry costs 4 * heads * head_dim * layers FLOPs, for s^2/2 entries. The backward pass costs twice as
  /// much; attention also recomputes its scores there (5 products instead of the forward's 2), so linear work
  /// counts 6/7 of what it does without a backward pass. Coefficients are in units of the quadratic one, so
  /// that costs stay small, and linear is rounded to the nearest unit. Throws InputError if a required size
  /// is missing or negative, or if head_dim is 0 and `heads` does not divide hidden_size. Throws LimitError
  /// if a product of sizes is 2^62 or more.
  [[nodiscard]] static CostModel from_model(const ModelDescription& model);

  friend bool operator==(const CostModel&, const CostModel&) = default;
};

/// Returns the work of samples that share a prefix: the work of the prefix, which counts once, and the work
/// that each suffix adds after it. Never more than the work of separate samples, and equal to it for one
/// sample. Precondition: lengths are not negative. Throws LimitError if the work is 2^62 or more.
///
/// Example: s^2, prefix 3, suffixes 1 and 2: 9 + (16 - 9) + (25 - 9) = 32; separately they cost 16 + 25.
[[nodiscard]] Cost cost_of_group(const CostModel& model, std::int64_t prefix,
                                 std::span<const std::int64_t> suffixes);

/// The cost of running a micro-batch on several ranks, in addition to its work. The unit is that of the cost
/// model: the time of one unit of work on one rank.
///
/// On g ranks a micro-batch of work W, of which the part A is attention over S tokens, takes
///
///     overhead + (W + max(0, c(g) (g-1) S - overlap/1000 A)) / g
///
/// where c(1) = 0. Each rank passes the keys and values of its tokens to the g-1 others while it computes
/// attention.
struct CommunicationCost {
  /// c(g) for g up to `ranks_per_node`: the cost of passing a token's keys and values to the next rank.
  Cost inside_node = 0;
  Cost between_nodes = 0;  ///< c(g) for larger groups
  std::int64_t ranks_per_node = 1;
  /// Share of the attention work that hides communication, in thousandths: 0 .. 1000.
  std::int64_t overlap = 1000;
  Cost overhead = 0;  ///< constant cost of any micro-batch, in addition to its work

  /// Returns c(size). Precondition: size >= 1.
  [[nodiscard]] constexpr Cost per_hop(std::int64_t size) const noexcept {
    if (size == 1) return 0;
    return size <= ranks_per_node ? inside_node : between_nodes;
  }
  friend constexpr bool operator==(const CommunicationCost&, const CommunicationCost&) = default;
};

/// Quantities that determine the time of a micro-batch: sums over its samples.
struct ContextWork {
  std::int64_t rows = 0;  ///< number of tokens; shared ones count once
  Cost work = 0;          ///< work of all kinds
  Cost attention = 0;     ///< the part of `work` that hides communication

  constexpr ContextWork& operator+=(const ContextWork& other) noexcept {
    rows += other.rows;
    work += other.work;
    attention += other.attention;
    return *this;
  }
  friend constexpr bool operator==(const ContextWork&, const ContextWork&) = default;
};

/// Returns the communication cost of a micro-batch on `size` ranks, summed over all of them, before any of it
/// is hidden.
[[nodiscard]] constexpr Cost communication_of(std::int64_t rows, std::int64_t size,
                                              const CommunicationCost& cost) noexcept {
  return cost.per_hop(size) * (size - 1) * rows;
}

/// Returns the part of the communication cost that is not hidden: 0 or more.
[[nodiscard]] constexpr Cost exposed_communication(const ContextWork& work, std::int64_t size,
                                                   const CommunicationCost& cost) noexcept {
  const Cost hidden = work.attention / 1000 * cost.overlap + work.attention % 1000 * cost.overlap / 1000;
  const Cost exposed = communication_of(work.rows, size, cost) - hidden;
  return exposed > 0 ? exposed : 0;
}

/// Returns the time of a micro-batch on `size` ranks, rounded up. Precondition: size >= 1.
///
/// Example: 24576 s + s^2, inside_node 333, s = 8192 on 2 ranks: 2.7 M of communication, hidden by 67 M of
/// attention, so (201 M + 67 M) / 2.
[[nodiscard]] constexpr Cost time_on(const ContextWork& work, std::int64_t size,
                                     const CommunicationCost& cost) noexcept {
  return cost.overhead + (work.work + exposed_communication(work, size, cost) + size - 1) / size;
}

}  // namespace evenkeel
