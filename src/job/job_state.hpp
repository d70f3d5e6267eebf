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

/// Where a job's state is kept, and whether it goes on from it. Equal on all ranks.
struct StateSettings {
  std::filesystem::path folder;  ///< empty: no state is kept
  std::int64_t every = 1;        ///< steps between two states
  bool resume = false;           ///< go on from the state that is there; begin where there is none
  ChangedJob changed = ChangedJob::refused;
};

/// A job's state over all of its ranks: rank 0 has the folder, all have the state that the job begins with.
class JobState {
 public:
  /// Collective. Reads the state to resume from, or makes one of a job that begins, with a new name. Throws
  /// the same error on every rank: as StateFolder does, and IoError for a folder with a state of a job that
  /// has made steps, when it is not to be resumed nor, by `overwrite`, to be given up.
  JobState(const boost::mpi::communicator& world, const StateSettings& settings, const Config& config,
           bool overwrite);

  [[nodiscard]] bool is_kept() const noexcept { return !settings_.folder.empty(); }
  /// Whether there was a state to go on from.
  [[nodiscard]] bool is_resumed() const noexcept { return is_resumed_; }
  /// Where the job begins.
  [[nodiscard]] const ServiceState& begin() const noexcept { return begin_; }

  /// Throws as require_same_job() does unless `now` is of the same job, or changes are accepted: then it
  /// returns them. Local, on replicated data.
  [[nodiscard]] std::vector<std::string> accept(const ServiceState& now) const;
  /// Collective: writes the state before `next_step`, of which `now` tells the rest, under the job's name,
  /// where that is due, which it always is when `always`. `now` is called on rank 0 alone, and only then.
  /// Returns whether nothing before `next_step` is needed any more: the state is written, or none is kept.
  bool write(const boost::mpi::communicator& world, std::int64_t next_step,
             const std::function<ServiceState()>& now, bool always = false);

 private:
  [[nodiscard]] std::string read_or_refuse(bool overwrite);

  StateSettings settings_;
  std::optional<StateFolder> folder_;  // on rank 0, where a state is kept
  ServiceState begin_;
  bool is_resumed_ = false;
  std::int64_t written_ = -1;  // the next step of the state written last
};

}  // namespace evenkeel
