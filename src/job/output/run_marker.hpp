#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "job/output/run_layout.hpp"

namespace evenkeel {

/// Which run, and the process that answers for a folder of its.
struct RunIdentity {
  std::string run;      ///< a name that no other run has
  std::string started;  ///< such as 2026-11-22T02:17:08Z
  std::string host;
  std::int64_t pid = 0;
  int rank = 0;
};

/// Of this process, with a new name; one process of a run tells the others name and time.
[[nodiscard]] RunIdentity new_identity(int rank);

/// A name that nothing else has: 16 hexadecimal digits.
[[nodiscard]] std::string random_name();

/// What evenkeel-run.json says about the output folder in which it lies.
struct RunMarker {
  static constexpr const char* file_name = RunLayout::marker_name;

  enum class State : std::uint8_t {
    running,   ///< the run has begun; whether it goes on, its lock says
    complete,  ///< everything was written
  };

  std::string version;  ///< of the program
  State state = State::running;
  RunIdentity by;
  std::string job;                 ///< the name in its state; empty where the run keeps none
  std::int64_t first_step = 0;     ///< that this run made itself; those before it earlier runs of the job did
  std::string configuration;       ///< hash of all settings
  int ranks = 0;                   ///< of the job
  std::set<std::string> profiles;  ///< RunLayout::profiles
  std::set<std::string> passes;    ///< the profiles of all passes over a step; an empty name: the job's own
  std::map<RunOutput, std::int64_t> files;  ///< what the folder holds, and in how many files when complete
  /// The first step that the folder holds of each; later than 0 where the job's first runs did not write it.
  std::map<RunOutput, std::int64_t> from;
  std::int64_t steps = 0;  ///< when complete
  std::string ended;       ///< when complete

  [[nodiscard]] RunLayout layout() const;
};

/// The marker in `folder`, or nothing when there is none. Throws InputError that names the file when it is
/// not one, IoError when it cannot be read.
[[nodiscard]] std::optional<RunMarker> read_run_marker(const std::filesystem::path& folder);

/// Puts the marker into `folder`, in place of the one that is there. Throws IoError.
void write_run_marker(const std::filesystem::path& folder, const RunMarker& marker);

}  // namespace evenkeel
