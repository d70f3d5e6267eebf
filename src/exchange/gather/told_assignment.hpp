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

/// choose_strategy on rank `teller`, which tells the others in one broadcast. Collective over `comm`, all
/// ranks of which bring equal input; throws only when MPI fails. What goes wrong on the teller goes to its
/// `work`: the others get nothing, and ranks elsewhere may get a choice, until all agree that it went wrong.
/// Precondition: is_strategy_open(problem.settings).
[[nodiscard]] std::optional<StrategyChoice> choose_strategy_together(const Communicator& comm, int teller,
                                                                     const StepProblem& problem,
                                                                     GuardedWork& work);

/// assign_step on every rank of `comm`, all of which bring equal input. With many samples rank `teller` works
/// out who gets which units and tells the others, 4 bytes a unit in one broadcast: ranks of a node share its
/// cores, and ranks that train need them. Collective over `comm`; throws only when MPI fails. Errors of
/// assign_step go to `work`.
[[nodiscard]] StepAssignment assign_together(const Communicator& comm, int teller, const StepProblem& problem,
                                             GuardedWork& work);

/// The ranks of a communicator along data parallelism as each other's PlanningPeers. Errors go to `work`;
/// where any rank's work has failed, all leave out what follows. Refers to both, which must outlive it.
class RankPeers final : public PlanningPeers {
 public:
  RankPeers(const Communicator& comm, GuardedWork& work) : comm_(comm), work_(work) {}

  void locally(const std::function<void()>& work) override { work_(work); }
  /// One all-reduce of 16 words as a rule; takes no memory. Collective.
  void take_largest(std::span<std::int64_t> numbers) override;

  /// Seconds that went into agreeing, waits for other ranks included.
  [[nodiscard]] double seconds() const noexcept { return seconds_; }

 private:
  Communicator comm_;
  GuardedWork& work_;
  double seconds_ = 0;
};

}  // namespace evenkeel
