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
  std::int64_t every = 1;        ///< interval, in steps, at which states are written
  bool resume = false;           ///< whether to resume from the state in the folder, if there is one
  ChangedJob changed = ChangedJob::refused;
};

/// A job's state, shared by all of its ranks. Rank 0 owns the folder; all ranks have the state from which the
/// job begins.
class JobState {
 public:
  /// Collective. Reads the state to resume from, or makes the state of a new job, with a new name. Throws the
  /// same error on every rank: InputError for a damaged state; IoError if the folder cannot be used, or if it
  /// contains the state of a job that has made steps and neither resuming nor `overwrite` is requested.
  JobState(const boost::mpi::communicator& world, const StateSettings& settings, const Config& config,
           bool overwrite);

  [[nodiscard]] bool is_kept() const noexcept { return !settings_.folder.empty(); }
  /// Returns whether the job resumes from a state with at least one step.
  [[nodiscard]] bool is_resumed() const noexcept { return is_resumed_; }
  /// Returns the state from which the job begins.
  [[nodiscard]] const ServiceState& initial_state() const noexcept { return initial_state_; }

  /// Compares the job with the state from which it resumes. Returns the differences; empty for a new job.
  /// Throws ConfigError if there are differences, unless changes are accepted. Local, on replicated data.
  [[nodiscard]] std::vector<std::string> accept_changes(const ServiceState& now) const;
  /// Collective. Writes a state from which a job resumes with step `next_step`, if `always` is set or a state
  /// is due (StateSettings::every). `now` returns the state, in which this function replaces the next step
  /// and the job's name. `now` is called only on rank 0, and only if the state is written. Returns whether
  /// samples of steps before `next_step` are no longer needed: the state was written, or no state is kept.
  bool write_if_due(const boost::mpi::communicator& world, std::int64_t next_step,
                    const std::function<ServiceState()>& now, bool always = false);

 private:
  [[nodiscard]] std::string read_state_to_resume(bool overwrite);

  StateSettings settings_;
  std::optional<StateFolder> folder_;  // set on rank 0 if a state is kept
  ServiceState initial_state_;
  bool is_resumed_ = false;
  std::int64_t last_written_step_ = -1;  // next step of the last written state
};

}  // namespace evenkeel
