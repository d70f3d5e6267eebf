#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "evenkeel/plan/settings.hpp"
#include "stream/ledger.hpp"

namespace evenkeel::stream {

/// What a step is formed from. It refers to its parts, which must outlive it.
struct FormerProblem {
  std::span<const WaitingGroup> waiting;  ///< in the order of their turns, as Ledger::ready() has them
  /// Versions of groups that will come (Ledger::coming): steps leave room for those that are urgent.
  std::span<const std::int64_t> coming = {};
  std::int64_t step = 0;
  std::int64_t version = 0;
  std::int64_t groups = 1;  ///< of a step
  bool ended = false;       ///< no more will come: the last step may be smaller
  const StreamSettings& stream;
  const PlanSettings& plan;  ///< of the job's costliest pass: what steps cost
};

/// Chooses the groups of the next step among those that wait; nothing if they are too few, or would be stale.
///
/// First come those that would go stale if they waited: as many of the oldest versions as must go now, if
/// every version is one step. A group that is stale already (OnStale::mask) does not count for its stale
/// samples. Then those that were passed over by more than (look_ahead - 1) steps' groups.
/// Then, of the first (1 + look_ahead) * groups in turn, those with which this step and the following ones of
/// that window end earliest, summed: StepPrice says when each ends. Where several steps are equally good as
/// the next one, it is the one that wastes least, and then the one whose groups came first. Steps have their
/// groups in the order of their turns.
///
/// So no group is in a later step than look_ahead after the one that first come, first served would have put
/// it in, but for those that gave way to older versions; and look_ahead 0 is first come, first served.
///
/// A pure function: no clock, no thread, no draw. It looks at some thousand swaps at most, and so finds the
/// best steps of small windows alone: 8192 waiting samples with look_ahead 2 take three
/// milliseconds at most.
[[nodiscard]] std::optional<StepFormed> form_step(const FormerProblem& problem);

}  // namespace evenkeel::stream
