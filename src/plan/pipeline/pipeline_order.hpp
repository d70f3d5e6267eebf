#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/pipeline/pipeline_schedule.hpp"

namespace evenkeel {

/// Positions in the order in which what stands there is run.
using RunOrder = std::vector<std::int64_t>;

/// Above that many simulation_steps, nothing is simulated to choose an order.
inline constexpr std::int64_t most_steps_of_an_order = std::int64_t{1} << 22;

/// An order of micro-batches of these costs whose simulated schedule (PipelineSimulation) ends early: no
/// later than that of any of the `candidates`, nor of rising cost, nor of the first candidate mirrored. It is
/// the first of these that ends first, unless an order is found that ends earlier yet. Where there are so few
/// orders that all of them can be simulated, that is the first of the best. Else some cheap micro-batches are
/// tried at the start, others at the end, and the rest by falling or rising cost; then swaps and shifts in
/// the best of these, drawn alike everywhere, and not always is the best of all orders found. All simulations
/// together take `most_steps` steps, or what the candidates take where that is more.
///
/// The first candidate itself where order is all one: a single stage, or micro-batches that cost the same;
/// and where one simulation takes more than most_steps_of_an_order. Deterministic, local.
///
/// Preconditions: at least one candidate; each has every position below the number of costs once; costs are
/// nowhere negative, and their sum is below 2^63. Where it is so near to that that simulation_shift is not 0,
/// orders are compared by costs that are so shifted.
[[nodiscard]] RunOrder order_by_schedule(PipelineShape shape, std::span<const Cost> costs,
                                         std::span<const RunOrder> candidates, std::int64_t most_steps);

}  // namespace evenkeel
