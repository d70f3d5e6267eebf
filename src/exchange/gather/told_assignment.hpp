#pragma once

#include "evenkeel/mesh/communicator.hpp"
#include "mesh/fail_together.hpp"
#include "plan/assign/step_assignment.hpp"

namespace evenkeel {

/// assign_step on every rank of `comm`, all of which bring equal input. With many samples rank `teller` works
/// out who gets which units and tells the others, 4 bytes a unit in one broadcast: ranks of a node share its
/// cores and its memory, and ranks that train have better to do. Collective over `comm`; throws only when MPI
/// fails. What assign_step throws, and what this rank has no memory for, goes to `work`. `assignment` becomes
/// the result of assign_step.
void assign_together(const Communicator& comm, int teller, const StepProblem& problem,
                     StepAssignment& assignment, GuardedWork& work);

}  // namespace evenkeel
