#pragma once

#include <optional>
#include <vector>

#include "balance/context/waves/builder.hpp"

namespace evenkeel::context {

/// All items on groups of one size, as with a fixed cp: a grid of these groups and as few waves as their caps
/// allow (partition_into_grid). Nothing where an item does not fit. Where all items are short beside a cap,
/// no mix of sizes is more even.
[[nodiscard]] std::optional<Waves> uniform_waves(const Levels& levels, int level);

/// The same of some of the items, which all fit there.
[[nodiscard]] Waves uniform_waves_of(std::vector<Item> items, const Levels& levels, int level);

}  // namespace evenkeel::context
