#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "evenkeel/mesh/communicator.hpp"

namespace evenkeel {

/// What a thread of a rank was last seen to do.
struct WatchedThread {
  std::string phase;       ///< "exchange", "its own code"
  std::int64_t step = -1;  ///< -1: none
  std::string waits;       ///< "other ranks in MPI_Allreduce"; empty where it waits for nobody

  friend bool operator==(const WatchedThread&, const WatchedThread&) = default;
};

/// What is known of a rank.
struct WatchedRank {
  int rank = 0;
  std::string host;
  std::vector<WatchedThread> threads;  ///< those that have called Evenkeel
  double silent = 0;                   ///< seconds since it was last heard of
  double still = 0;                    ///< seconds since it last got on with anything
  bool is_heard = false;               ///< ever
  bool has_ended = false;              ///< its watchdog has gone, as it should at the end
};

/// Why a job cannot go on.
struct WatchdogReport {
  std::string message;             ///< rank, host, phase and cause, in one line
  std::vector<WatchedRank> ranks;  ///< all of them on the rank that finds out; none on others

  /// The message, and below it a line a rank, or a line for several that are alike.
  [[nodiscard]] std::string text(std::size_t width) const;
};

/// What a watchdog is to do.
struct WatchdogSettings {
  /// A job that cannot go on is told within so many seconds, and not before three quarters of them; 0: never.
  double seconds = 60;
  /// Called on the rank that finds out, once, before any other hears of it. To tell people.
  std::function<void(const WatchdogReport&)> tells = {};
  /// Called next, on every rank that can still be reached. To end the program, or let it end itself; where it
  /// returns, this watchdog watches no more.
  std::function<void(const WatchdogReport&)> ends = {};
  /// Called for what keeps it from seeing some ranks. The job goes on.
  std::function<void(const std::string&)> warns = {};
};

/// What a program does that has nothing of its own to do then: tells and warns on the standard error output,
/// and ends the process at once with status 1.
[[nodiscard]] WatchdogSettings ending_the_process(double seconds);

/// This process, by the number that it has among the ranks that it will meet.
struct OneRank {
  int rank = 0;
};

/// Finds out that a job cannot go on, and why, where its ranks would else wait for each other without end.
/// A thread a process sends a sign of life, with what the process does, to two ranks on different nodes where
/// there are two, by UDP and never through MPI. A job cannot go on when
///
/// - a rank that was heard is silent: it is stopped, or its machine or its link is down;
/// - nothing gets on anywhere while some rank waits for others: one stays away in its own code, has left,
///   or is in another collective call.
///
/// A rank gets on when any phase of its work begins or ends; while it uses processor time (one part in a
/// hundred) outside of waits for other ranks; while bytes are read or written; and while the system lets it
/// wait for a disk. So a slow job is never ended. What shows none of these, such as a thread that sleeps
/// until a device is done, needs `tell_progress()` now and then, or more `seconds`. A rank that computes
/// without end is not found. Time in which the whole job is suspended does not count.
///
/// Before ranks have met, none knows of the others. A program may have it watched all the same: it begins
/// alone, then meets. Until all have met, a rank that has come nowhere near is missed, too, when nothing
/// moves in those that wait for it: so ranks must come within the time.
///
/// The functions of the settings run on the watchdog's thread and must not call MPI unless it permits
/// threads.
class Watchdog {
 public:
  /// Collective over `comm`. For one rank, or 0 seconds, nothing is watched. Throws on every rank IoError
  /// when a rank cannot open a socket, LimitError when it cannot have a thread, InputError for seconds below
  /// 0, MeshError for MPI_COMM_NULL and intercommunicators, MpiError while MPI is not running.
  Watchdog(const Communicator& comm, WatchdogSettings settings);
  /// Local: begins alone. A wait for other ranks in which nothing moves in this process ends it; the lowest
  /// rank that waits tells, of each machine one, and the others end after it, unless a launcher ends them.
  /// For 0 seconds, nothing is ended. Throws std::bad_alloc; what else fails is told by meet(). Precondition:
  /// 0 <= seconds.
  Watchdog(OneRank own, WatchdogSettings settings);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  /// Local. May come after MPI_Finalize, which is watched then, too.
  ~Watchdog();

  /// Collective, once, for those that have begun alone: from now on ranks watch each other. Throws as the
  /// first constructor does; then nothing more is watched than before.
  void meet(const Communicator& comm);
  /// Another limit, the same on all ranks, once they have met; 0: from now on nothing is watched. Local.
  void set_seconds(double seconds);

  /// This process has got on with its own work. Local; any thread; costs nothing.
  static void tell_progress() noexcept;

 private:
  class Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace evenkeel
