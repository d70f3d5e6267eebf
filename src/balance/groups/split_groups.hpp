#pragma once

#include <cstdint>
#include <span>

#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// Halves the costliest group of two items or more by Karmarkar-Karp until there are k groups, then adds
/// empty ones. The groups keep their places, new ones follow. Precondition: `start` has k groups or fewer.
[[nodiscard]] Partition split_groups(const Partition& start, std::span<const Cost> costs, std::int64_t k);

}  // namespace evenkeel
