#pragma once

#include <boost/mpi/communicator.hpp>
#include <cstdint>
#include <span>

#include "evenkeel/mesh/fail_together.hpp"
#include "evenkeel/plan/dealt_step.hpp"

namespace evenkeel {

/// deal_step on every rank of a node, whose ranks bring equal input. With many samples the first rank works
/// out the shares and tells the others, 4 bytes a sample in one broadcast: the ranks of a node share its
/// cores and its memory, and so have better to do than all the same. Collective over `node`; throws only when
/// MPI fails. What deal_step throws, and what this rank has no memory for, goes to `work`. `dealt` becomes
/// the result of deal_step.
void deal_on_node(const boost::mpi::communicator& node, const LengthTable& table,
                  const PlanSettings& settings, std::int64_t step, std::span<const SharedGroup> trees,
                  DealtStep& dealt, GuardedWork& work);

}  // namespace evenkeel
