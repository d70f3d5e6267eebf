#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "job/output/run_layout.hpp"

namespace evenkeel {

/// A run, and the process that manages one of its folders.
struct RunIdentity {
  std::string run;      ///< name of the run, unique among runs
  std::string started;  ///< start time of the run, such as 2026-11-22T02:17:08Z
  std::string host;
  std::int64_t pid = 0;
  int rank = 0;
};

/// Returns an identity of this process with a new name. One process of a run broadcasts its name and time to
/// the others.
[[nodiscard]] RunIdentity new_identity(int rank);

/// Returns a unique name: 16 hexadecimal digits.
[[nodiscard]] std::string random_name();

/// Contents of evenkeel-run.json, the file in an output folder that describes the folder's run.
struct RunMarker {
  static constexpr const char* file_name = RunLayout::marker_name;

  enum class State : std::uint8_t {
    running,   ///< the run has begun; its lock is held while it continues
    complete,  ///< all files were written
  };

  std::string version;  ///< version of the program
  State state = State::running;
  RunIdentity by;
  std::string job;              ///< name stored in the job's state; empty if the run does not keep a state
  std::int64_t first_step = 0;  ///< first step of this run; earlier runs of the job made the previous steps
  std::string configuration;    ///< hash of all settings
  int ranks = 0;                ///< number of ranks of the job
  std::set<std::string> profiles;  ///< see RunLayout::profiles
  std::set<std::string> passes;    ///< profiles of all passes over a step; "" is the job's own settings
  /// Outputs in the folder, each with its number of files, which is known only after completion.
  std::map<RunOutput, std::int64_t> files;
  /// First step of each output in the folder. It is not 0 if the job's first runs did not write the output.
  std::map<RunOutput, std::int64_t> from;
  std::int64_t steps = 0;  ///< number of steps of the job, including earlier runs; 0 until completion
  std::string ended;       ///< time of completion; empty until then

  [[nodiscard]] RunLayout layout() const;
};

/// Returns the marker in `folder`, or nullopt if there is none. Throws InputError naming the file if it is
/// not a marker, and IoError if it cannot be read.
[[nodiscard]] std::optional<RunMarker> read_run_marker(const std::filesystem::path& folder);

/// Writes the marker into `folder`, replacing any existing one. Throws IoError.
void write_run_marker(const std::filesystem::path& folder, const RunMarker& marker);

}  // namespace evenkeel
