#pragma once

#include "bench/data/transfer_job.hpp"

namespace evenkeel::bench {

/// Collective over `world`: how long trainers whose compute takes 1.2 times as long as the data work wait for
/// steps that are made ahead. The compute runs on a device, with the processor idle, or on this rank's own
/// core; each step ends with a barrier, at the point where gradients would be summed. The figures are those
/// of the slowest rank in each step.
[[nodiscard]] Table prefetch_table(const boost::mpi::communicator& world, const TransferJob& job,
                                   const TransferOptions& options);

}  // namespace evenkeel::bench
