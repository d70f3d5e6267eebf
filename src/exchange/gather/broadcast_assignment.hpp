#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "evenkeel/mesh/communicator.hpp"
#include "mesh/fail_together.hpp"
#include "plan/assign/dp_rank_plans.hpp"
#include "plan/assign/step_assignment.hpp"
#include "plan/strategies/automatic.hpp"

namespace evenkeel {

/// Runs choose_strategy() on rank `root` and broadcasts the choice. Collective over `comm`; all ranks of
/// `comm` pass equal input. Throws only if MPI fails. If choose_strategy() fails, the error goes to the
/// root's `work`. If that work has failed, in this call or earlier, all ranks of `comm` get nullopt. Each
/// node calls this with its own communicator, so ranks of other nodes may get a choice before all ranks agree
/// on the error. Precondition: compares_strategies(problem.settings).
[[nodiscard]] std::optional<StrategyChoice> choose_strategy_together(const Communicator& comm, int root,
                                                                     const StepProblem& problem,
                                                                     GuardedWork& work);

/// Returns the result of assign_step() on every rank of `comm`; all ranks pass equal input. If there are many
/// samples, only rank `root` assigns units and broadcasts the assignment (4 bytes per unit), which leaves the
/// node's other cores to the trainers. Collective over `comm`. Throws only if MPI fails; if assign_step()
/// throws, the error goes to `work`.
[[nodiscard]] StepAssignment assign_together(const Communicator& comm, int root, const StepProblem& problem,
                                             GuardedWork& work);

/// Implements PlanningPeers by communicating over `comm`, which contains one rank per DP rank. Errors go to
/// `work`. If the work of any rank has failed, all ranks skip the remaining parts of planning. `work` must
/// outlive this object.
class RankPeers final : public PlanningPeers {
 public:
  RankPeers(const Communicator& comm, GuardedWork& work) : comm_(comm), work_(work) {}

  void run_locally(const std::function<void()>& work) override { work_(work); }
  /// Replaces every number with its maximum over all ranks (see PlanningPeers). Collective: usually one
  /// all-reduce of 16 words.
  void take_maximum(std::span<std::int64_t> numbers) override;

  /// Returns the seconds spent in take_maximum(), including the time spent waiting for other ranks.
  [[nodiscard]] double seconds() const noexcept { return seconds_; }

 private:
  Communicator comm_;
  GuardedWork& work_;
  double seconds_ = 0;
};

}  // namespace evenkeel
