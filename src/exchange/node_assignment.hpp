#pragma once

#include <boost/mpi/communicator.hpp>

#include "mesh/fail_together.hpp"
#include "plan/step_assignment.hpp"

namespace evenkeel {

/// assign_step on every rank of a node, whose ranks bring equal input. With many samples the first rank works
/// out who gets which units and tells the others, 4 bytes a unit in one broadcast: the ranks of a node share
/// its cores and its memory, and so have better to do than all the same. Collective over `node`; throws only
/// when MPI fails. What assign_step throws, and what this rank has no memory for, goes to `work`.
/// `assignment` becomes the result of assign_step.
void assign_on_node(const boost::mpi::communicator& node, const StepProblem& problem,
                    StepAssignment& assignment, GuardedWork& work);

}  // namespace evenkeel
