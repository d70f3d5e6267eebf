#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "evenkeel/mesh/communicator.hpp"

namespace evenkeel {

/// The last known activity of a rank's thread.
struct WatchedThread {
  std::string phase;        ///< such as "exchange" or "its own code"
  std::int64_t step = -1;   ///< -1 if there is none
  std::string waiting_for;  ///< such as "other ranks in MPI_Allreduce"; empty if it does not wait

  friend bool operator==(const WatchedThread&, const WatchedThread&) = default;
};

/// The last known state of a rank.
struct WatchedRank {
  int rank = 0;
  std::string host;
  std::vector<WatchedThread> threads;  ///< threads that have called Evenkeel
  double silent_seconds = 0;           ///< seconds since its last heartbeat
  double stalled_seconds = 0;          ///< seconds since it last made progress
  bool was_heard = false;              ///< whether a heartbeat was ever received
  bool has_ended = false;              ///< whether its watchdog has ended normally
};

/// The reason why a job cannot continue.
struct WatchdogReport {
  std::string message;  ///< rank, host, phase and cause, in one line
  /// All ranks, on the rank that detects the problem, if it knows the others; otherwise empty.
  std::vector<WatchedRank> ranks;

  /// Returns the message, followed by a table with a line per thread of each rank; similar ranks share lines.
  [[nodiscard]] std::string text() const;
};

/// The time limit of a watchdog, and its actions if a job cannot continue.
struct WatchdogSettings {
  /// A job that cannot continue is reported within this number of seconds, but not before three quarters of
  /// it; 0 for never.
  double seconds = 60;
  /// Called once on the rank that detects the problem, before any other rank learns about it. Use it to
  /// inform users.
  std::function<void(const WatchdogReport&)> report = {};
  /// Called next, on every rank that can still be reached. It should end the program, or make it end; if it
  /// returns, this watchdog stops.
  std::function<void(const WatchdogReport&)> terminate = {};
  /// Called if some ranks cannot be observed. The job continues.
  std::function<void(const std::string&)> warn = {};
};

/// Returns settings for programs without special needs: report and warn on standard error, and end the
/// process at once with status 1.
[[nodiscard]] WatchdogSettings default_watchdog_settings(double seconds);

/// This process, identified by its number among the ranks that it will meet.
struct OneRank {
  int rank = 0;
};

/// Detects that a job cannot continue, and why, if its ranks would otherwise wait for each other forever. A
/// thread in each process sends heartbeats, which include the process's activity, to rank 0, which answers.
/// Heartbeats use UDP, never MPI. The judge is rank 0, or the lowest rank whose watchdog has not ended; the
/// other ranks only check whether the judge is silent. A job cannot continue if
///
/// - a rank that was heard before is silent: it was stopped, or its machine or its link is down;
/// - no rank makes progress while some rank waits for others: a rank remains in its own code, has left, or is
///   in another collective call.
///
/// A rank makes progress when any phase of its work begins or ends; while a thread uses processor time (at
/// least 1 % of a core) other than for waiting for other ranks; while bytes are read or written; and while it
/// waits for a disk. So a slow job is never ended. Work that does none of these, such as a thread that sleeps
/// until a device is done, needs to call record_progress() occasionally, or needs more `seconds`. A rank that
/// computes forever is not detected. Time in which the whole job is suspended does not count.
///
/// Before ranks have met, they do not know about each other. To be watched from the beginning, each rank
/// starts a watchdog alone, and then they meet. Until all have met, a rank that has not arrived is reported
/// as missing if the ranks that wait for it make no progress, so ranks must meet within the time limit.
///
/// The settings' functions run on the watchdog's thread, and must not call MPI unless MPI permits threads.
class Watchdog {
 public:
  /// Collective over `comm`. With one rank, or 0 seconds, nothing is watched. On every rank, throws IoError
  /// if a rank cannot open a socket, LimitError if it cannot create a thread, InputError for negative
  /// seconds, MeshError for MPI_COMM_NULL and intercommunicators, and MpiError if MPI is not running.
  Watchdog(const Communicator& comm, WatchdogSettings settings);
  /// Local: starts alone. If this process waits for other ranks without making progress, the watchdog ends
  /// it. On each machine, only the lowest waiting rank reports; the others end without a report, unless a
  /// launcher ends them first. With 0 seconds, nothing is ended. Throws std::bad_alloc; start_watching()
  /// reports other errors. Precondition: 0 <= seconds.
  Watchdog(OneRank own, WatchdogSettings settings);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  /// Local. May be called after MPI_Finalize, in which case MPI_Finalize is also watched.
  ~Watchdog();

  /// Collective, once, for watchdogs that started alone: from now on, ranks watch each other. Throws the
  /// errors of the first constructor; in that case, nothing more is watched than before.
  void start_watching(const Communicator& comm);
  /// After ranks have met, sets another time limit, which must be the same on all ranks; with 0, nothing is
  /// watched from now on. Local.
  void set_seconds(double seconds);

  /// Reports that this process has made progress with its own work. Local; may be called from any thread;
  /// costs almost nothing.
  static void record_progress() noexcept;

 private:
  class Runner;
  std::unique_ptr<Runner> runner_;
};

}  // namespace evenkeel
