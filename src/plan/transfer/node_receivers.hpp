#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "evenkeel/base/grid.hpp"
#include "plan/transfer/carried_fields.hpp"

namespace evenkeel {

/// Returns, for each world rank, the rank to which owners send that rank's data, which may be the rank
/// itself. The model-parallel ranks of one node (equal dp and cp) hold the same rows. Fields that more than
/// one stage needs go to only one of these ranks, preferably one of the last pipeline stage, which needs all
/// fields; the others copy from it. Therefore, no row is sent to the same node twice. `nodes[r]` is rank r's
/// node. Pure; O(ranks log ranks).
[[nodiscard]] std::vector<int> node_receivers(const Grid& grid, std::span<const int> nodes);
/// Same as node_receivers(), for fields needed by only one pipeline stage: the lowest rank of each stage on
/// each node receives for that stage.
[[nodiscard]] std::vector<int> stage_receivers(const Grid& grid, std::span<const int> nodes);
/// Returns, for each rank that gets field `f` of `fields`, the rank that holds the values stored once per
/// node: the lowest rank on its node that gets the field. Returns -1 for ranks that do not get the field.
/// Pure; O(ranks * (fields + log nodes)).
[[nodiscard]] std::vector<int> node_holders(const Grid& grid, std::span<const int> nodes,
                                            std::span<const CarriedField> fields, std::size_t f);

}  // namespace evenkeel
