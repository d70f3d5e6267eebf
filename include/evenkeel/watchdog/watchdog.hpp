#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "evenkeel/mesh/communicator.hpp"

namespace evenkeel {

/// What a thread of a rank was last seen doing.
struct WatchedThread {
  std::string phase;       ///< "exchange", "its own code"
  std::int64_t step = -1;  ///< -1: none
  std::string waits;       ///< "other ranks in MPI_Allreduce"; empty if it does not wait

  friend bool operator==(const WatchedThread&, const WatchedThread&) = default;
};

/// What is known about a rank.
struct WatchedRank {
  int rank = 0;
  std::string host;
  std::vector<WatchedThread> threads;  ///< those that have called Evenkeel
  double silent = 0;                   ///< seconds since its last heartbeat
  double still = 0;                    ///< seconds since it last made progress
  bool is_heard = false;               ///< ever
  bool has_ended = false;              ///< its watchdog has ended normally
};

/// Why a job cannot continue.
struct WatchdogReport {
  std::string message;             ///< rank, host, phase and cause, in one line
  std::vector<WatchedRank> ranks;  ///< all of them on the rank that finds out; empty on others

  /// The message, and below it a line for each rank; equal ranks share a line.
  [[nodiscard]] std::string text() const;
};

/// What a watchdog does.
struct WatchdogSettings {
  /// A job that cannot continue is reported within this many seconds, and not before three quarters of them;
  /// 0: never.
  double seconds = 60;
  /// Called once on the rank that finds out, before any other rank hears of it. For telling users.
  std::function<void(const WatchdogReport&)> tells = {};
  /// Called next, on every rank that can still be reached. For ending the program, or making it end; if it
  /// returns, this watchdog stops.
  std::function<void(const WatchdogReport&)> ends = {};
  /// Called if it cannot see some ranks. The job continues.
  std::function<void(const std::string&)> warns = {};
};

/// For programs without special needs: tells and warns on standard error, and ends the process at once with
/// status 1.
[[nodiscard]] WatchdogSettings ending_the_process(double seconds);

/// This process, by its number among the ranks that it will meet.
struct OneRank {
  int rank = 0;
};

/// Finds out that a job cannot continue, and why, if its ranks would otherwise wait for each other forever. A
/// thread in each process sends heartbeats, with what the process does, to rank 0, which answers, by UDP and
/// never through MPI. Rank 0 judges, or the lowest rank whose watchdog has not ended; the others judge only
/// whether that one is silent. A job cannot continue if
///
/// - a rank that was heard before is silent: it is stopped, or its machine or its link is down;
/// - no rank makes progress while some rank waits for others: one stays in its own code, has left, or is in
///   another collective call.
///
/// A rank makes progress when any phase of its work begins or ends; while a thread uses processor time (at
/// least one hundredth) outside of waits for other ranks; while bytes are read or written; and while it waits
/// for a disk. So a slow job is never ended. Work that shows none of these, such as a thread that sleeps
/// until a device is done, needs `tell_progress()` now and then, or more `seconds`. A rank that computes
/// endlessly is not detected. Time in which the whole job is suspended does not count.
///
/// Before ranks have met, they do not know of each other. To be watched from the beginning, each starts a
/// watchdog alone, and then they meet. Until all have met, a rank that has not come is missed if the ranks
/// that wait for it make no progress: so ranks must meet within the time.
///
/// The settings' functions run on the watchdog's thread, and must not call MPI unless MPI permits
/// threads.
class Watchdog {
 public:
  /// Collective over `comm`. For one rank, or 0 seconds, nothing is watched. Throws on every rank IoError if
  /// a rank cannot open a socket, LimitError if it cannot have a thread, InputError for negative seconds,
  /// MeshError for MPI_COMM_NULL and intercommunicators, MpiError if MPI is not running.
  Watchdog(const Communicator& comm, WatchdogSettings settings);
  /// Local: starts alone. A wait for other ranks without progress in this process ends it; on each machine,
  /// the lowest rank that waits tells, and the others end after it, unless a launcher ends them. For 0
  /// seconds, nothing is ended. Throws std::bad_alloc; meet() reports other errors. Precondition: 0 <=
  /// seconds.
  Watchdog(OneRank own, WatchdogSettings settings);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  /// Local. May be called after MPI_Finalize, which is then watched, too.
  ~Watchdog();

  /// Collective, once, for watchdogs that started alone: from now on ranks watch each other. Throws as the
  /// first constructor does; then no more is watched than before.
  void meet(const Communicator& comm);
  /// Sets another limit, the same on all ranks, after they have met; 0: from now on nothing is watched.
  /// Local.
  void set_seconds(double seconds);

  /// Reports that this process has made progress with its own work. Local; any thread; costs nothing.
  static void tell_progress() noexcept;

 private:
  class Runner;
  std::unique_ptr<Runner> runner_;
};

}  // namespace evenkeel
