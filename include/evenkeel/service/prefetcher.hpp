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

struct PrefetcherParts;

/// Makes steps ready ahead of the trainer: while it works on one step, the next ones are read, gathered,
/// planned and exchanged. N = `exchange.prefetch` is how many: at most N steps are ready or being made
/// besides those that the trainer holds, and nothing is begun before the trainer has taken one more.
///
/// - Where all ranks have MPI_THREAD_MULTIPLE (ask MPI for it when you initialize it) and N > 0, a thread
///   makes steps on communicators of its own, from construction on. The trainer may communicate as it likes
///   meanwhile, on any communicator. The thread runs on the cores that the launcher bound the rank to: with
///   one core only, which is what mpirun gives up to two ranks, it shares that with the trainer. While it
///   waits for other ranks it polls MPI, so that a rank needs a core to spare, or MPI a setting to yield
///   (Open MPI: `mpi_yield_when_idle`).
/// - Else there is no thread: steps are made inside next(), or ahead inside progress(). All ranks do the
///   same.
///
/// With data ranks (see serve()) `read` is called as ever and brings nothing: the data ranks read ahead, and
/// take part in making each step.
///
/// Steps are those that a DataService makes of the same samples, numbers and errors included. A step that
/// failed is an error of the next() that would have returned it: the same typed error on every rank. The
/// steps after it still come, under their own numbers. Only what one rank may throw alone, MpiError or a bug,
/// ends all: it is thrown again by every later next(), and the job should end.
///
/// A step belongs to the trainer once next() has returned it. Results are collected, and further passes made
/// under other profiles, with a DataService of the trainer's own, constructed over the same ranks and with
/// the same configuration.
///
/// Constructor, next(), progress() and destructor are collective, called by one thread. The destructor may
/// come after any step, but after the same one on all ranks, and before MPI_Finalize. It waits for the step
/// that is being made, and no rank begins another one.
class Prefetcher {
 public:
  /// Brings this rank's samples of step `step`, 0-based; called once a step, in order. May throw Error: all
  /// ranks then throw it together. Runs on the thread, where there is one: what it shares with the trainer it
  /// must guard, and its communicators, if it has any, are its alone.
  using Reader = std::function<RaggedBatch(std::int64_t step)>;

  /// `steps` are made in all, planned with `profile`. Throws what DataService throws; ConfigError when the
  /// steps or the profiles of ranks differ; InputError for fewer than no steps; LimitError where a rank
  /// cannot have a thread; each on every rank.
  Prefetcher(const Communicator& world, const Config& config, std::int64_t steps, Reader read,
             std::string profile = {});
  /// Goes on where `from` was taken, as a DataService does: the first step is from.next_step, the last one
  /// `steps` - 1. Hands out none where that has been reached.
  Prefetcher(const Communicator& world, const Config& config, std::int64_t steps, Reader read,
             const ServiceState& from, ChangedJob changed = ChangedJob::refused, std::string profile = {});
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;
  ~Prefetcher();

  /// Whether a thread makes the steps. The same on all ranks.
  [[nodiscard]] bool in_background() const noexcept;

  /// Where the trainer stands: after the step that next() returned last, or the error it threw; steps that
  /// are ready or being made count as not made. See DataService::state(). Called by the thread that calls
  /// next().
  [[nodiscard]] ServiceState state() const;

  /// The next step, with the seconds that the trainer waited for it; nothing after the last one.
  [[nodiscard]] std::optional<Step> next();

  /// DataService::report_time for the steps that are made here. Local and thread-safe. Steps that are ready
  /// or being made are planned already: a time counts from the next one begun, on all ranks alike, so that
  /// costs follow it up to N + 1 steps later.
  void report_time(const Step& step, std::size_t micro_batch, double seconds) const;

  /// Without a thread: makes one step ahead unless N are ready or none is left, and tells whether it did. A
  /// good moment is when the trainer's own work goes on elsewhere, such as kernels queued on a device. Does
  /// nothing where there is a thread.
  bool progress();

 private:
  std::unique_ptr<PrefetcherParts> parts_;
};

}  // namespace evenkeel
