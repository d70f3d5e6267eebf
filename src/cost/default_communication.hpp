#pragma once

#include "evenkeel/cost/cost_model.hpp"

namespace evenkeel::default_communication {

// What a token of a 7B model with grouped queries costs, and its keys and values on an H100 node's links.
inline constexpr Cost token = 24576;
inline constexpr Cost inside_node = 333;
inline constexpr Cost between_nodes = 2500;

}  // namespace evenkeel::default_communication
