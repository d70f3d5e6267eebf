#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "balance/context/schedule.hpp"
#include "balance/context/waves/builder.hpp"

namespace evenkeel::context {

/// Returns a schedule for ranks that synchronize after every micro-batch: waves of disjoint groups, in which
/// some ranks may be idle. The number of waves is a multiple of `multiple_of`, and at least `min_waves`; the
/// last waves may be empty. Waves are in descending order of time.
///
/// 1. Place the long items. These are the items that do not fit on one rank, or that take longer there than
///    1.5 times the time of a full micro-batch of average items. Each wave has a height, the time up to which
///    it is filled with other long items; it is never less than the time of the wave's first item, which is
///    the largest remaining one. Try several heights that apply to all waves, and a beam search that chooses
///    the height of each wave.
/// 2. Improve these waves by ruin and recreate, treating small items as divisible.
/// 3. Add the small items: fill up the waves and add more waves, or spread the small items evenly.
/// 4. Improve the best results by ruin and recreate.
/// 5. For up to 16384 items, also try groups of one size (uniform_waves()).
///
/// If speeds differ, each group gets the fastest free block of its size. It is filled with as much work as
/// its slowest rank can do in the time of the wave.
///
/// Throws InputError if multiple_of is below 1 or min_waves is below 0, and InputError or LimitError if
/// require_schedulable() rejects the problem. Deterministic, local, integers only. The search is limited by
/// operation counts, which decrease with the number of items, not by time. O(n log n) for many items.
[[nodiscard]] Schedule schedule_waves(const Problem& problem, std::int64_t multiple_of = 1,
                                      std::int64_t min_waves = 1);

/// Returns the waves of schedule_waves(), without empty ones. Precondition: there are items.
[[nodiscard]] Waves best_waves(const Levels& levels);

/// Returns waves of all items on groups of one size, as with a fixed context-parallel size: a grid of such
/// groups, with as few waves as their caps allow (partition_into_grid()). Returns nullopt if an item does not
/// fit. If all items are short compared with the cap, mixing group sizes does not give more even waves.
[[nodiscard]] std::optional<Waves> uniform_waves(const Levels& levels, int level);

/// Same as uniform_waves(), for some of the items. Precondition: each of them fits in a group of this size.
[[nodiscard]] Waves make_uniform_waves(std::vector<Item> items, const Levels& levels, int level);

}  // namespace evenkeel::context
