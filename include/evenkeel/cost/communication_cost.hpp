#pragma once

#include <cstdint>

#include "evenkeel/cost/cost_model.hpp"

namespace evenkeel {

/// What running a micro-batch on several ranks costs beside the work, in the cost model's units on one rank.
///
/// On g ranks a micro-batch of work W, of which the part A is attention over S tokens, takes
///
///     overhead + (W + max(0, c(g) (g-1) S - overlap A)) / g
///
/// where c(1) = 0. Each rank passes the keys and values of its tokens on to the g-1 others, while it attends.
struct CommunicationCost {
  Cost inside_node = 0;    ///< c(g) up to `ranks_per_node`: of one token's keys and values, one rank on
  Cost between_nodes = 0;  ///< c(g) of a larger group
  std::int64_t ranks_per_node = 1;
  std::int64_t overlap = 1000;  ///< how much of the attention work hides it, in thousandths: 0 .. 1000
  Cost overhead = 0;            ///< of a micro-batch, whatever it holds

  /// c(size). Precondition: size >= 1.
  [[nodiscard]] constexpr Cost per_hop(std::int64_t size) const noexcept {
    if (size == 1) return 0;
    return size <= ranks_per_node ? inside_node : between_nodes;
  }
  friend constexpr bool operator==(const CommunicationCost&, const CommunicationCost&) = default;
};

/// What the time of a micro-batch depends on: sums over what it holds.
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

/// What communication costs a micro-batch on `size` ranks, over all of them, before any of it is hidden.
[[nodiscard]] constexpr Cost communication_of(std::int64_t rows, std::int64_t size,
                                              const CommunicationCost& cost) noexcept {
  return cost.per_hop(size) * (size - 1) * rows;
}

/// The part of that which nothing hides: 0 or more.
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
