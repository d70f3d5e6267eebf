#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "evenkeel/base/grid.hpp"
#include "plan/transfer/carried_fields.hpp"

namespace evenkeel {

/// For each world rank the rank that owners send to in its stead, itself maybe. The model-parallel ranks of
/// one node (equal dp and cp) hold the same rows, of which the last pipeline stage needs every field that is
/// not for one stage alone, so one of them receives and the others copy from it: nothing crosses the network
/// twice to one node. `nodes[r]` is rank r's node. Pure; O(ranks log ranks).
[[nodiscard]] std::vector<int> node_receivers(const Grid& grid, std::span<const int> nodes);
/// The same of what is for one pipeline stage alone: one rank of each stage receives it, its lowest.
[[nodiscard]] std::vector<int> stage_receivers(const Grid& grid, std::span<const int> nodes);
/// For each rank of the grid that is handed field `f` of `fields` the lowest one of its node that is, which
/// holds what lies once a node; -1 for the others. Pure; O(ranks).
[[nodiscard]] std::vector<int> node_holders(const Grid& grid, std::span<const int> nodes,
                                            std::span<const CarriedField> fields, std::size_t f);

}  // namespace evenkeel
