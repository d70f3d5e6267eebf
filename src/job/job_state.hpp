#pragma once

#include <boost/mpi/communicator.hpp>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "evenkeel/config/config.hpp"
#include "evenkeel/service/service_state.hpp"
#include "job/output/state_folder.hpp"

namespace evenkeel {

/// The folder of a job's state, and whether to resume from it. Equal on all ranks.
struct StateSettings {
  std::filesystem::path folder;  ///< empty if no state is kept
  std::int64_t every = 1;        ///< number of steps between two states
  bool resume = false;           ///< whether to resume from the state in the folder, if there is one
  ChangedJob changed = ChangedJob::refused;
};

/// A job's state, shared by all of its ranks. Rank 0 owns the folder; all ranks have the state from which the
/// job begins.
class JobState {
 public:
  /// Collective. Reads the state to resume from, or makes the state of a new job, with a new name. Throws the
  /// same error on every rank: the errors of StateFolder, and IoError if the folder contains the state of a
  /// job that has made steps and neither resuming nor `overwrite` is requested.
  JobState(const boost::mpi::communicator& world, const StateSettings& settings, const Config& config,
           bool overwrite);

  [[nodiscard]] bool is_kept() const noexcept { return !settings_.folder.empty(); }
  /// Returns whether the job resumes from a state with at least one step.
  [[nodiscard]] bool is_resumed() const noexcept { return is_resumed_; }
  /// Returns the state from which the job begins.
  [[nodiscard]] const ServiceState& initial_state() const noexcept { return begin_; }

  /// Compares the job with the state from which it resumes. Returns the differences; empty for a new job.
  /// Throws the errors of require_same_job() unless changes are accepted. Local, on replicated data.
  [[nodiscard]] std::vector<std::string> accept(const ServiceState& now) const;
  /// Collective. Writes the state before `next_step`, under the job's name, if it is due or if `always` is
  /// set. `now` returns the state; this function replaces its number of the next step and its job name. `now`
  /// is called only on rank 0, and only if the state is written. Returns whether samples before `next_step`
  /// are no longer needed: the state was written, or no state is kept.
  bool write(const boost::mpi::communicator& world, std::int64_t next_step,
             const std::function<ServiceState()>& now, bool always = false);

 private:
  [[nodiscard]] std::string read_unless_other_job(bool overwrite);

  StateSettings settings_;
  std::optional<StateFolder> folder_;  // on rank 0, if a state is kept
  ServiceState begin_;
  bool is_resumed_ = false;
  std::int64_t written_ = -1;  // next step of the last written state
};

}  // namespace evenkeel
