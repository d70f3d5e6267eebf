#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "evenkeel/plan/outlier_delay.hpp"

namespace evenkeel {

/// A step of a window: the positions of its samples in the sources, in order, and the effect of the delay.
struct DelayedStep {
  std::vector<std::int64_t> samples;
  DelayFigures figures;
};

/// Delays the outliers of a window of steps until companions of similar size arrive:
/// 1. Visit the steps in order and queue the outliers of each step.
/// 2. When outliers_per_step outliers of similar length are queued (the shortest is at least half as long as
///    the longest), move all of them to the current step. In exchange, the same number of the current step's
///    other samples move to the earlier steps.
/// 3. At the end of the window, move the remaining outliers to its last step, in groups of at most
///    outliers_per_step. If a single one is left, it stays in its step.
///
/// For each move, the changed steps are planned again, and the sum of their end times is compared with that
/// before the move: once for ranks that synchronize at every micro-batch, and once for ranks that synchronize
/// once per step. The move is undone unless one of the two sums decreases and neither increases. A window
/// therefore never ends later than it would without delays, if plan_step() plans it with `delay.plan`. A
/// window with a sample above the cap is not changed, so the error occurs in the step that contains the
/// sample and in no other step.
///
/// A pure function: all ranks compute the same result. Every step keeps its number of samples; outliers never
/// move to an earlier step or out of the window. The idea is based on the outlier queue of WLB-LLM (Wang et
/// al., OSDI 2025), which does not look ahead. Makes O(steps + outliers) plans of single steps, which take
/// most of the time.
///
/// `first_step` is the number of the window's first step; random choices in plans depend on it. Precondition:
/// delay.settings.is_on(), longer_than is set, and outliers_per_step is at least 2.
[[nodiscard]] std::vector<DelayedStep> delay_outliers(std::int64_t first_step,
                                                      std::span<const std::vector<std::int64_t>> steps,
                                                      const OutlierDelay& delay);

}  // namespace evenkeel
