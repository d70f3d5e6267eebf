#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "evenkeel/service/service_state.hpp"
#include "job/output/run_lock.hpp"

namespace evenkeel {

/// The folder in which a job keeps its state, in the hands of one process: locked for as long as the object
/// lives. It holds the state written last, and the one before it.
///
/// A state is written under another name, synced to the disk, and renamed: whenever the process or the
/// machine stops, there is a whole state under the name, the one before if need be. All is local. Every error
/// is an IoError, or an InputError for a file that is no state, and names the file.
class StateFolder {
 public:
  static constexpr const char* file_name = "evenkeel-state.json";
  static constexpr const char* previous_name = "evenkeel-state.previous.json";

  /// Makes the folder where it is missing, and removes what interrupted writes left. Throws IoError when
  /// another run has it.
  StateFolder(std::filesystem::path folder, const RunIdentity& run);

  /// The state that was written last, or nothing when there is none yet. One that is damaged is an error that
  /// names the one before it.
  [[nodiscard]] std::optional<ServiceState> read() const;
  void write(const ServiceState& state);

  [[nodiscard]] std::string path() const { return (folder_ / file_name).string(); }

 private:
  void remove_leftovers() const;

  std::filesystem::path folder_;
  std::optional<RunLock> lock_;
  std::string last_;  // text of the state written last
};

/// The state in a file. Throws as parse_state() does, and IoError. Never reads more than a state can have.
[[nodiscard]] ServiceState read_state(const std::filesystem::path& file);

}  // namespace evenkeel
