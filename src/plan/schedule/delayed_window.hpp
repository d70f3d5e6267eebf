#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/plan/outlier_delay.hpp"

namespace evenkeel {

/// A step of a window: its samples' positions in the sources, in order.
struct DelayedStep {
  std::vector<std::int64_t> samples;
  DelayFigures figures;
};

/// Lets the outliers of a window of steps wait for companions of like size. Step by step they queue; as soon
/// as `companions` of them are there, the shortest at least half as long as the longest, they all come in
/// this step, and as many of its other samples take their places in the steps that they left. Those that are
/// left at the window's end come together in its last step, as far as that helps.
///
/// Companions stay where they were unless the plans of the steps that change then end earlier, summed, where
/// ranks meet at every micro-batch or only once, and by neither count later. So no window ends later than
/// without, as plan_step plans it for `delay.plan`. A window that holds a sample above the cap stays as it
/// is: the step that meets it is an error, and no other.
///
/// A pure function: every rank that makes it gets the same. Every step keeps its number of samples, no
/// outlier comes earlier, and none leaves the window. The idea is the outlier queue of WLB-LLM (Wang et al.,
/// OSDI 2025), which knows no steps to come. O(outliers * log) and at most as many plans of a step as the
/// window has steps and outliers.
///
/// `first_step` is the number of the window's first step, by which plans draw. Precondition:
/// settings.is_on(), with both others given.
[[nodiscard]] std::vector<DelayedStep> delay_outliers(std::int64_t first_step,
                                                      std::span<const std::vector<std::int64_t>> steps,
                                                      const OutlierDelay& delay);

}  // namespace evenkeel
