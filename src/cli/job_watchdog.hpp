#pragma once

#include <boost/mpi/communicator.hpp>
#include <optional>
#include <span>
#include <string>

#include "evenkeel/base/error.hpp"
#include "evenkeel/config/config.hpp"
#include "evenkeel/watchdog/watchdog.hpp"

namespace evenkeel::cli {

/// What ends a job that cannot go on, as soon as MPI is up.
class JobWatchdog {
 public:
  /// Local: begins to watch this rank alone. Until the configuration is read, the limit is that of the
  /// command line (--set watchdog.seconds=N), or the default.
  void begin(const boost::mpi::communicator& world, std::span<const std::string> overrides);
  /// Collective over `world`, where all have begun: from now on its ranks watch each other. Throws MpiError.
  void meet(const boost::mpi::communicator& world);
  /// What has kept ranks from watching each other, the same on all of them.
  [[nodiscard]] const std::optional<ErrorReport>& failure() const noexcept { return failure_; }
  /// Local: from now on what the configuration says counts. Throws failure(), unless nothing is to be
  /// watched.
  void settle(const Config& config);
  /// Local: watches no more. For ranks that run beside another program, which has no watchdog: a slow one
  /// would look like one that is stopped.
  void end() noexcept { watchdog_.reset(); }

 private:
  std::optional<Watchdog> watchdog_;
  std::optional<ErrorReport> failure_;
};

}  // namespace evenkeel::cli
