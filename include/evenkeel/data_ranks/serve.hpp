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

/// Runs a data rank of a job: it reads its share of the configured sources, filters, plans and sends, until
/// the trainers need no more.
///
/// Called on the first `mesh.data_ranks` ranks of `world`, and nothing else is called there. The other ranks
/// train: they make SampleStreams, Prefetchers and DataServices over the same `world` with the same
/// configuration, in any number and order, as if they read the samples themselves, and get the same
/// micro-batches, bit for bit. On them SampleStream::read() returns nothing; trainers must not bring samples
/// of their own. A DataService gets samples of the newest SampleStream, and a Prefetcher of the newest one at
/// its construction. Collected results stay with the samples, on the data ranks, and trainers add them to a
/// later pass by name; DataService::collect_on gathers them on a trainer.
///
/// Samples are read ahead for at most max(1, `exchange.prefetch`) steps, in addition to those that the
/// trainers' Prefetcher holds; then data ranks wait. Steps are made ahead if all ranks, including
/// these, have initialized MPI with MPI_THREAD_MULTIPLE; otherwise they are made when trainers ask for
/// them.
///
/// Returns when the trainers call MPI_Finalize or dismiss_data_ranks(). Errors in reading or planning are
/// thrown on all trainers, by the call that needed the samples; they may make further calls. In errors,
/// trainers have the ranks from 0 on, and data ranks come after them, whatever their numbers in `world`.
/// Throws on every rank of `world` ConfigError if other ranks serve than the configuration says, or if it
/// differs between ranks; MpiError, possibly on this rank alone, which ends the job.
///
/// Data ranks may end the job's data early: streams have at most the smallest `most_steps` of all data ranks,
/// and trainers that read a stream to its end stop there.
///
/// Collective with the trainers' calls; only one call at a time. As a program: `evenkeel serve`.
ServedSamples serve(const Communicator& world, const Config& config,
                    std::int64_t most_steps = SampleStream::all_steps);

/// Makes the data ranks return from serve() before MPI_Finalize. Called on all trainers after the last
/// stream, prefetcher and service over data ranks was destroyed. Does not wait. No effect without data ranks.
void dismiss_data_ranks();

}  // namespace evenkeel
