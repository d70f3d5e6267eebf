#pragma once

#include "evenkeel/cost/cost_model.hpp"

namespace evenkeel::default_communication {

// Default costs, for a 7B model with grouped-query attention: the cost of a token, and the costs of passing
// its keys and values to the next rank over the links inside and between H100 nodes.
inline constexpr Cost token = 24576;
inline constexpr Cost inside_node = 333;
inline constexpr Cost between_nodes = 2500;

}  // namespace evenkeel::default_communication
