#pragma once

#include <boost/mpi/communicator.hpp>
#include <optional>
#include <span>
#include <string>

#include "evenkeel/base/error.hpp"
#include "evenkeel/config/config.hpp"
#include "evenkeel/watchdog/watchdog.hpp"

namespace evenkeel::cli {

/// Ends a job that cannot continue. Covers the job from the initialization of MPI on.
class JobWatchdog {
 public:
  /// Local. Starts to watch this rank only. Until the configuration is read, the limit is the one on the
  /// command line (--set watchdog.seconds=N), or the default.
  void begin(const boost::mpi::communicator& world, std::span<const std::string> overrides);
  /// Collective over `world`. From now on, its ranks watch each other. Throws MpiError.
  void start_watching(const boost::mpi::communicator& world);
  /// Local. Sets the limit to the one in the configuration. If an error prevented the ranks from watching
  /// each other, throws this error, which is the same on all ranks, unless the configuration turns the
  /// watchdog off.
  void apply_config(const Config& config);

 private:
  std::optional<Watchdog> watchdog_;
  std::optional<ErrorReport> failure_;
};

}  // namespace evenkeel::cli
