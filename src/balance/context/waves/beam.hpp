#pragma once

#include <cstdint>
#include <vector>

#include "balance/context/waves/builder.hpp"
#include "balance/context/waves/moves.hpp"

namespace evenkeel::context {

/// Waves of all items of `builder`, wave after wave: as high as the largest item left takes on one of its
/// groups, or somewhat more. All heights are tried; of the beginnings with as many waves the most promising
/// are kept, which are those that end first with the least area of what is left. (Beam search.) Once so many
/// items were placed, the most promising one is filled up as it comes. Those that end first come first.
[[nodiscard]] std::vector<Waves> beam_waves(const Levels& levels, WaveBuilder& builder, const Sand& sand,
                                            std::int64_t placements);

}  // namespace evenkeel::context
