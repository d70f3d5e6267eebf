#pragma once

#include <boost/mpi/communicator.hpp>
#include <cstdint>
#include <span>

#include "evenkeel/plan/dealt_step.hpp"

namespace evenkeel {

/// deal_step on every rank of a node, whose ranks bring equal input. With many samples the first rank works
/// out the shares and tells the others, 4 bytes a sample in one broadcast: the ranks of a node share its
/// cores and its memory, and so have better to do than all the same. Throws as deal_step does, on every rank.
/// Collective over `node`. The result is that of deal_step.
[[nodiscard]] DealtStep deal_on_node(const boost::mpi::communicator& node, const LengthTable& table,
                                     const PlanSettings& settings, std::int64_t step,
                                     std::span<const SharedGroup> trees = {});

}  // namespace evenkeel
