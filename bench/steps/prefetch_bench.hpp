#pragma once

#include "bench/data/transfer_job.hpp"

namespace evenkeel::bench {

/// Collective over `world`: how long trainers whose compute takes 1.2 times as long as the data work wait for
/// steps that are made ahead. Compute is a device's, with the processor idle, or this rank's own core's; each
/// step ends with a barrier, where gradients would be summed. Figures are of the slowest rank of each step.
[[nodiscard]] Table prefetch_table(const boost::mpi::communicator& world, const TransferJob& job,
                                   const TransferOptions& options);

}  // namespace evenkeel::bench
