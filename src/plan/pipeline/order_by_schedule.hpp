#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/pipeline/pipeline_schedule.hpp"

namespace evenkeel {

/// An execution order: a permutation of positions.
using RunOrder = std::vector<std::int64_t>;

/// Maximum simulation_steps() of one simulation. If one simulation would take more steps, orders are not
/// simulated.
inline constexpr std::int64_t max_steps_of_an_order = std::int64_t{1} << 22;

/// Returns an order of micro-batches with these costs whose simulated schedule (PipelineSimulation) ends
/// early:
/// 1. Simulate the candidates, the order by ascending cost, and the reverse of the first candidate. Keep the
///    first one with the earliest end; later steps replace it only with an order that ends earlier.
/// 2. If the budget allows, simulate all orders in lexicographic order, and return the best.
/// 3. Otherwise, try some of the cheapest micro-batches at the start and others at the end, with the rest in
///    descending or ascending order.
/// 4. Improve the best order by pseudo-random swaps and shifts, equal on all ranks. Moves that do not end
///    later are accepted; after many moves without improvement, the search restarts near the best order.
///
/// All simulations together take at most `max_steps` steps, or the number needed by step 1 if that is
/// larger. Returns the first candidate if order does not matter (a single stage, or micro-batches of equal
/// cost), or if one simulation takes more than max_steps_of_an_order. Deterministic, local.
///
/// Preconditions: there is a candidate; each is a permutation of the positions of `costs`; costs are
/// non-negative, and their sum is below 2^63. If the sum is so large that simulation_shift() is not 0, orders
/// are compared by shifted costs.
[[nodiscard]] RunOrder order_by_schedule(PipelineShape shape, std::span<const Cost> costs,
                                         std::span<const RunOrder> candidates, std::int64_t max_steps);

}  // namespace evenkeel
