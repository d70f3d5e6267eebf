#pragma once

#include <cstdint>

#include "balance/context/waves/builder.hpp"

namespace evenkeel::context {

/// Makes the end of `waves` earlier: takes all items of a wave, or of the micro-batches that a wave waits
/// for, out, and puts each, by falling work, where it makes waves longer by least: into a micro-batch with
/// room, onto free ranks of a wave, or into a new wave. Kept where the end is earlier; until nothing is found
/// or so many places were looked at. (Ruin and recreate; Schrimpf et al., 2000.) Never worse. Deterministic.
void improve_waves(Waves& waves, const Levels& levels, const Sand& sand, std::int64_t& looks_left);

/// Numbers waves by falling time and gives every micro-batch its ranks, unless it has them since speeds
/// differ. Tasks come out by wave.
void settle_waves(Waves& waves, const Levels& levels);

}  // namespace evenkeel::context
