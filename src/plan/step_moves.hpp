#pragma once

#include "evenkeel/plan/dealt_step.hpp"
#include "evenkeel/plan/placement.hpp"

namespace evenkeel {

/// move_to_owners in every mini-batch, by the settings' placement_tolerance. Where a mini-batch would then
/// need more micro-batches, by a quarter of it, and again; if that does not help either, it stays as it was.
/// Counts the micro-batches of all DP ranks, twice as a rule, five times at most. Precondition: samples are
/// dealt and nothing is packed yet.
void move_samples_to_owners(const LengthTable& table, const PlanSettings& settings,
                            const PlacementInput& input, DealtStep& dealt);

}  // namespace evenkeel
