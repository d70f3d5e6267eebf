#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "evenkeel/plan/settings.hpp"
#include "stream/ledger.hpp"

namespace evenkeel::stream {

/// Input of form_step(). Keeps references to its parts, which must outlive it.
struct FormStepInput {
  std::span<const WaitingGroup> waiting;  ///< result of Ledger::ready(): the ready groups in queue order
  /// Version of each expected group (Ledger::versions_of_expected_groups()). Waiting groups may become urgent
  /// because the expected groups will need places in the next steps.
  std::span<const std::int64_t> expected_versions = {};
  std::int64_t step = 0;     ///< number of the step to form
  std::int64_t version = 0;  ///< current policy version
  std::int64_t groups = 1;   ///< number of groups per step
  bool ended = false;        ///< whether no more samples will arrive, so the last step may be smaller
  const StreamSettings& stream;
  const PlanSettings& plan;  ///< settings of the job's costliest pass, from which step costs are estimated
};

/// Chooses the groups of the next step from the waiting groups. Returns nullopt if there are fewer groups
/// than a step needs or, after the end of the stream, if there are no groups.
///
/// Adds groups to the step in this order until the step is full:
/// 1. Urgent groups, which would become stale if they were not in this step: the groups with the oldest
///    versions, as many as must be trained now if every step advances the version by one. Samples that are
///    already stale (OnStale::mask) do not make a group urgent.
/// 2. Groups that were passed over by more than (look_ahead - 1) * groups others (WaitingGroup::passed), in
///    queue order.
/// 3. Groups from a window: the first (1 + look_ahead) * groups of the queue. The window is divided into
///    steps so that their total time, as estimated by StepCostEstimate, is small. If there are groups from
///    rules 1 or 2, the next step is the step that contains them. Otherwise, it is the full step with the
///    least idle time; on a tie, the step whose groups came first.
///
/// The result lists groups in queue order. Compared with first come, first served, a group is delayed by at
/// most look_ahead steps, unless it has to wait for groups with older versions. If look_ahead is 0, the
/// groups that are not urgent are chosen first come, first served.
///
/// A pure function, without clocks, threads or random numbers. It tries at most a few thousand swaps, so the
/// steps are optimal only for small windows. 8192 waiting samples with look_ahead 2 take at most three
/// milliseconds. Throws LimitError if a cost is 2^62 or more (see StepCostEstimate).
[[nodiscard]] std::optional<StepFormed> form_step(const FormStepInput& problem);

}  // namespace evenkeel::stream
