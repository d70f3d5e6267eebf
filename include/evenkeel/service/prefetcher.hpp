#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/config/config.hpp"
#include "evenkeel/mesh/communicator.hpp"
#include "evenkeel/service/service_state.hpp"
#include "evenkeel/service/step.hpp"

namespace evenkeel {

class DataService;
struct Resumption;
class SampleStream;
struct StepsWanted;

/// Makes steps ahead of the trainer: while it works on one step, the next ones are read, gathered, planned
/// and exchanged. At most N = `exchange.prefetch` steps are ready or being made besides those that the
/// trainer holds, and the next one is started only when the trainer has taken one more.
///
/// - If all ranks have MPI_THREAD_MULTIPLE (request it when you initialize MPI) and N > 0, a thread makes
///   steps on communicators of its own, from construction on. The trainer may use any communicator at the
///   same time. The thread runs on the cores to which the launcher bound the rank: if that is only one, as
///   mpirun does for up to two ranks, it shares it with the trainer. While it waits for other ranks it
///   polls MPI, so a rank needs a core to spare, or MPI a setting to yield (Open MPI:
///   `mpi_yield_when_idle`).
/// - Otherwise there is no thread: steps are made in next(), or ahead in progress(). All ranks do the
///   same.
///
/// Steps, including numbers and errors, are those that a DataService makes from the same samples. If a step
/// failed, the next() that would have returned it throws the same typed error on every rank. Later steps
/// still follow, with their own numbers. Only errors that one rank may throw alone, MpiError or a bug, are
/// final: every later next() throws them again, and the job should end.
///
/// A step belongs to the trainer once next() has returned it. The trainer collects results and makes further
/// passes under other profiles with a DataService of its own, over the same ranks and with the same
/// configuration.
///
/// Constructor, next(), progress() and destructor are collective, called by one thread. The destructor may be
/// called after any step, but after the same one on all ranks, and before MPI_Finalize. It waits for the step
/// that is being made, and no rank starts another one.
class Prefetcher {
 public:
  /// Brings this rank's samples of step `step`, 0-based; called once for each step, in order. May throw
  /// Error: all ranks then throw it together. EndOfSamples ends the steps on all ranks, without an error.
  /// Runs on the thread, if there is one: it must synchronize data that it shares with the trainer, and must
  /// not share communicators.
  using Reader = std::function<RaggedBatch(std::int64_t step)>;

  /// Makes `steps` in total, planned with `profile`. Throws what DataService throws; ConfigError if the steps
  /// or the profiles of ranks differ; InputError for a negative number of steps; LimitError if a rank cannot
  /// have a thread; each on every rank.
  Prefetcher(const Communicator& world, const Config& config, std::int64_t steps, Reader read,
             std::string profile = {});
  /// Resumes from `from`, as a DataService does: the first step is from.next_step, the last one `steps` - 1.
  /// Returns no step if that has been reached.
  Prefetcher(const Communicator& world, const Config& config, std::int64_t steps, Reader read,
             const ServiceState& from, ChangedJob changed = ChangedJob::refused, std::string profile = {});
  /// The same, and the sources of `samples`, which `read` reads, are compared with the state's, if it has
  /// any.
  Prefetcher(const Communicator& world, const Config& config, std::int64_t steps, Reader read,
             const ServiceState& from, SampleStream& samples, ChangedJob changed = ChangedJob::refused,
             std::string profile = {});
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;
  ~Prefetcher();

  /// Whether a thread makes the steps. The same on all ranks.
  [[nodiscard]] bool in_background() const noexcept;

  /// The trainer's position: after the last step that next() returned, or the error it threw; steps that
  /// are ready or being made do not count. See DataService::state(). Called by the thread that calls
  /// next().
  [[nodiscard]] ServiceState state() const;
  /// The same with the costs that `passes` has measured, which makes further passes over these steps under
  /// other profiles.
  [[nodiscard]] ServiceState state(const DataService& passes) const;

  /// The next step, with the seconds that the trainer waited for it; nothing after the last one.
  [[nodiscard]] std::optional<Step> next();

  /// DataService::report_time for the steps that are made here. Local and thread-safe. Steps that are ready
  /// or being made are already planned: a time affects the next one that is started, the same on all ranks,
  /// up to N + 1 steps later.
  void report_time(const Step& step, std::size_t micro_batch, double seconds) const;

  /// Without a thread: makes one step ahead unless N are ready or none is left, and returns whether it did.
  /// Call it while the trainer's work runs elsewhere, such as kernels queued on a device. Does nothing if
  /// there is a thread.
  bool progress();

 private:
  struct Parts;

  Prefetcher(const Communicator& world, const Config& config, StepsWanted wanted, const Resumption& from);

  std::unique_ptr<Parts> parts_;
};

}  // namespace evenkeel
