#pragma once

#include <optional>

#include "evenkeel/mesh/communicator.hpp"
#include "mesh/fail_together.hpp"
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

}  // namespace evenkeel
