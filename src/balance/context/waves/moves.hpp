#pragma once

#include <cstdint>

#include "balance/context/waves/builder.hpp"

namespace evenkeel::context {

/// Makes `waves` end earlier by ruin and recreate (Schrimpf et al., 2000):
/// 1. Remove all items of a wave, or only the items of the micro-batches that end last in it. If there are
///    few waves, also do this for pairs of waves.
/// 2. Insert the items in descending order of work, each where it increases the waves' times the least: into
///    a micro-batch with room, onto free ranks of a wave, or into a new wave.
/// 3. Keep the result if the end is earlier.
///
/// The end includes the time for `small` items that do not fit in the waves. Stops when no improvement is
/// found, or when `evaluations_left`, from which examined places of items are subtracted, is used up. Never
/// makes the end later. Deterministic.
void improve_waves(Waves& waves, const Levels& levels, const SmallItems& small,
                   std::int64_t& evaluations_left);

/// Numbers waves in descending order of time, and sorts tasks by wave. Also assigns ranks to every
/// micro-batch if speeds are equal; otherwise, micro-batches already have ranks.
void finalize_waves(Waves& waves, const Levels& levels);

}  // namespace evenkeel::context
