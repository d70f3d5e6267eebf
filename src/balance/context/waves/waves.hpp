#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "balance/context/schedule.hpp"
#include "balance/context/waves/builder.hpp"

namespace evenkeel::context {

/// A schedule for ranks that meet after every micro-batch: waves of groups that do not overlap, in which some
/// ranks may be idle. The number of waves is a multiple of `multiple_of`, and at least `min_waves`; the last
/// ones may be empty. Waves come by falling time.
///
/// Items that do not fit into a wave of full single ranks find their waves first: for several heights that
/// are the same for all waves, and by a beam search over the height of each. The largest item says how high
/// its wave is, the others fill it; ruin and recreate improves that, as if small items were sand. Then these
/// fill up what room is left, and further waves, or are spread evenly over these; and the best of all are
/// improved again.
///
/// Where speeds differ, each group stands on the fastest block of its size that is free, and is filled up to
/// what its slowest rank does in the height of the wave.
///
/// Throws as require_fits does; InputError where multiple_of is below 1 or min_waves below 0.
/// Deterministic, local, integers only; how much is tried is bounded by counts, which fall with the number of
/// items, never by a clock. O(n log n) for many items.
[[nodiscard]] Schedule schedule_waves(const Problem& problem, std::int64_t multiple_of = 1,
                                      std::int64_t min_waves = 1);

/// All items on groups of one size, as with a fixed cp: a grid of these groups and as few waves as their caps
/// allow (partition_into_grid). Nothing where an item does not fit. Where all items are short beside a cap,
/// no mix of sizes is more even.
[[nodiscard]] std::optional<Waves> uniform_waves(const Levels& levels, int level);

/// The same of some of the items, which all fit there.
[[nodiscard]] Waves uniform_waves_of(std::vector<Item> items, const Levels& levels, int level);

}  // namespace evenkeel::context
