#pragma once

#include <span>

#include "evenkeel/balance/partition.hpp"

namespace evenkeel {

/// Karmarkar-Karp exactly as its rules are written: lists of items are copied and compared in full. Slow, and
/// shares no code with the fast implementation, which must give equal results.
///
/// 1. Sort items by ascending (cost, item). With GroupSize::free, each item starts a state: one set with the
///    item, and k-1 empty sets. With equal counts, each run of k items starts a state, with one item per set;
///    virtual items without cost precede all others to complete the first run.
/// 2. Sort the sets of a state in descending order of (sum, number of items, (item, cost) pairs in insertion
///    order).
/// 3. Take the two states with the largest (spread, first set).
/// 4. Join set i of one with set k-1-i of the other. Repeat until one state is left.
Partition reference_karmarkar_karp(std::span<const Cost> costs, std::int64_t k, GroupSize group_size);

}  // namespace evenkeel
