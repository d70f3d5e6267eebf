#pragma once

#include <cstdint>

#include "evenkeel/config/config.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "evenkeel/source/sample_stream.hpp"

namespace evenkeel {

/// What a data rank has read for trainers.
struct ServedSamples {
  std::int64_t steps = 0;    ///< of which it has read its share
  std::int64_t samples = 0;  ///< in these shares
  std::int64_t tokens = 0;   ///< of these samples
};

/// Makes this process a data rank of a job: it reads its share of the configured sources, filters, plans and
/// sends, until the trainers need no more.
///
/// Called on the first `mesh.data_ranks` ranks of `world`, and there instead of everything else. The other
/// ranks train: they make a SampleStream, a Prefetcher, a DataService over the same `world` with the same
/// configuration, in any number and order, as if they read the samples themselves, and are handed the same
/// micro-batches, bit for bit. On them SampleStream::read() gives nothing; trainers must not bring samples of
/// their own. A DataService is brought samples of the SampleStream that was made last, a Prefetcher of the
/// one that was made last before it. What is collected stays with the samples, on the data ranks, where a
/// later pass finds it when the trainers name it; DataService::collect_on brings it to a trainer.
///
/// Samples of the steps to come are read ahead, those of max(1, `exchange.prefetch`) steps at most and beyond
/// those that the trainers' Prefetcher holds: data ranks wait while trainers have enough. Steps are made
/// ahead where all ranks, these too, have initialized MPI with MPI_THREAD_MULTIPLE; without it they are made
/// when trainers ask for them.
///
/// Returns when the trainers call MPI_Finalize, or dismiss_data_ranks(). Errors in reading or planning are
/// thrown on the trainers, all of them, by the call that needed the samples; they may make further calls. In
/// errors the trainers are ranks 0 and so on, and the data ranks come after them, whatever their numbers in
/// `world`. Throws on every rank of `world` ConfigError when other ranks serve than those the configuration
/// says, or it differs between ranks; MpiError, maybe on this rank alone, which ends the job.
///
/// Data ranks may end the job's data early: streams have no more than `most_steps` of them all, and trainers
/// that run through a stream end there.
///
/// Collective with what trainers do; once at a time. In a program of its own: `evenkeel serve`.
ServedSamples serve(const Communicator& world, const Config& config,
                    std::int64_t most_steps = SampleStream::all_steps);

/// Lets the data ranks return from serve() before MPI_Finalize. Called on all trainers after the last stream,
/// prefetcher and service over data ranks has gone. Does not wait. Without effect where there are none.
void dismiss_data_ranks();

}  // namespace evenkeel
