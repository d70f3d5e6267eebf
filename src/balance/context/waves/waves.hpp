#pragma once

#include <cstdint>

#include "balance/context/schedule.hpp"

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

}  // namespace evenkeel::context
