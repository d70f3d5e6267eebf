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
  /// Collective over `world`: from now on its ranks watch each other. Throws MpiError.
  void meet(const boost::mpi::communicator& world);
  /// Local: from now on the limit is the configuration's. Throws what has kept ranks from watching each
  /// other, the same on all of them, unless the configuration turns the watchdog off.
  void settle(const Config& config);

 private:
  std::optional<Watchdog> watchdog_;
  std::optional<ErrorReport> failure_;
};

}  // namespace evenkeel::cli
