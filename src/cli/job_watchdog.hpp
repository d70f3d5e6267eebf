#pragma once

#include <boost/mpi/communicator.hpp>
#include <optional>
#include <span>
#include <string>

#include "evenkeel/base/error.hpp"
#include "evenkeel/config/config.hpp"
#include "evenkeel/watchdog/watchdog.hpp"

namespace evenkeel::cli {

/// Ends a job that cannot continue. Watches the job as soon as MPI is initialized.
class JobWatchdog {
 public:
  /// Local. Starts to watch this rank only. Until the configuration is read, the time limit is the value on
  /// the command line (--set watchdog.seconds=N) or the default.
  void begin(const boost::mpi::communicator& world, std::span<const std::string> overrides);
  /// Collective over `world`. Makes the ranks watch each other from now on. Throws MpiError if MPI fails on
  /// this rank only; apply_config() throws other errors.
  void start_watching(const boost::mpi::communicator& world);
  /// Local. Sets the time limit to the configured value. If start_watching() has failed, throws its error,
  /// which is the same on all ranks, unless the configuration turns the watchdog off.
  void apply_config(const Config& config);

 private:
  std::optional<Watchdog> watchdog_;
  std::optional<ErrorReport> failure_;
};

}  // namespace evenkeel::cli
