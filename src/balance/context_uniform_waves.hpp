#pragma once

#include <optional>

#include "balance/context_wave_builder.hpp"

namespace evenkeel {

/// All items on groups of one size, as with a fixed cp: a grid of these groups and as few waves as their caps
/// allow (partition_into_grid). Nothing where an item does not fit. Where all items are short beside a cap,
/// no mix of sizes is more even.
[[nodiscard]] std::optional<Waves> uniform_waves(const ContextLevels& levels, int level);

}  // namespace evenkeel
