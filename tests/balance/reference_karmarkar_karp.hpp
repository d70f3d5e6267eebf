#pragma once

#include <span>

#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// Karmarkar-Karp as its rules read: item lists are copied and compared whole, and nothing is skipped. Slow,
/// and shares no code with the fast one, which must equal it.
///
/// 1. Items rise by (cost, item). Free: a state an item, in one set, beside k-1 empty ones. Equal: a state
/// each
///    k items in a row, one a set; virtual zero-cost items before all others fill up the first run.
/// 2. Sets compare by (sum, number of items, (item, cost) pairs in insertion order), and stand in falling
/// order.
/// 3. The state with the larger (spread, first set) is taken first.
/// 4. Of the first two taken, set i of one is joined with set k-1-i of the other, until one state is left.
Partition reference_karmarkar_karp(std::span<const Cost> costs, std::int64_t k, GroupSize group_size);

}  // namespace evenkeel
