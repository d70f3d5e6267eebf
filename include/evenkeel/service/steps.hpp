#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "evenkeel/batch/ragged_batch.hpp"
#include "evenkeel/service/step.hpp"

namespace evenkeel {

struct ServiceParts;

/// The steps of a DataService, made ahead of the trainer: while it works on one step, the next ones are read,
/// gathered, planned and exchanged. In addition to the steps that the trainer holds, at most N =
/// `exchange.prefetch` steps are ready or being made, and another one is started only when the trainer has
/// taken one. Made by DataService::steps().
///
/// - If all ranks have MPI_THREAD_MULTIPLE (request it when you initialize MPI) and N > 0, a thread makes
///   steps on its own communicators. The trainer may use any communicator at the same time. The thread runs
///   on the cores to which the launcher bound the rank; if there is only one, as with mpirun for up to two
///   ranks, it shares this core with the trainer. While it waits for other ranks, it polls MPI, so a rank
///   needs a spare core, or MPI must be set to yield (Open MPI: `mpi_yield_when_idle`).
/// - Otherwise there is no thread: steps are made in next(), or ahead in progress(). All ranks do the
///   same.
///
/// If a step failed, the next() that would have returned it throws the same typed error on every rank. Later
/// steps still follow, with their own numbers. Only errors that one rank may throw alone (MpiError or a bug)
/// are final: every later next() throws them again, and the job should end.
///
/// A step belongs to the trainer once next() has returned it; the service collects its results and makes
/// further passes over it.
///
/// next(), progress() and the destructor are collective, called by one thread. The destructor may be called
/// after any step, but must be called after the same step on all ranks, and before MPI_Finalize. It waits for
/// the step that is being made, and no rank starts another one. It must be called before the destructor of
/// the service.
class Steps {
 public:
  /// Returns this rank's samples of step `step`, 0-based; called once per step, in order. If it throws an
  /// Error on any rank, all ranks throw it together. EndOfSamples ends the steps on all ranks, without an
  /// error. If there is a thread, the function is called on it. It must then synchronize data that it shares
  /// with the trainer, and must not share communicators.
  using Reader = std::function<RaggedBatch(std::int64_t step)>;

  Steps(Steps&& other) noexcept;
  Steps& operator=(Steps&&) = delete;
  ~Steps();

  /// Returns whether a thread makes the steps. The same on all ranks.
  [[nodiscard]] bool in_background() const noexcept;

  /// Returns the next step, with the seconds that the trainer waited for it; nullopt after the last one.
  [[nodiscard]] std::optional<Step> next();

  /// If there is no thread, makes one step ahead, unless N steps are ready or there are no more. Returns
  /// whether it tried to make a step; if that failed, next() throws the error. Call this while the trainer's
  /// work runs elsewhere, such as kernels queued on a device. Does nothing if there is a thread.
  bool progress();

 private:
  friend class DataService;
  explicit Steps(ServiceParts& service) noexcept : service_(&service) {}

  ServiceParts* service_;  // null after a move
};

}  // namespace evenkeel
