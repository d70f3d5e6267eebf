#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace evenkeel::context {

/// The first rank of each group of a wave, of sizes that fall and fit `ranks` together. Groups that are no
/// larger than a node lie inside one, as their time assumes, where first fit finds a place for each; else all
/// stand side by side from rank 0 on. O(groups * nodes).
[[nodiscard]] std::vector<std::int64_t> places_in_wave(std::span<const std::int64_t> sizes,
                                                       std::int64_t ranks, std::int64_t ranks_per_node);

}  // namespace evenkeel::context
