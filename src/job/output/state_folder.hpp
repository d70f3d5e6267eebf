#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "evenkeel/service/service_state.hpp"
#include "job/output/run_lock.hpp"

namespace evenkeel {

/// The folder in which a job keeps its state. It is owned by one process and locked for the lifetime of this
/// object. It contains the last written state and the one before it.
///
/// A state is written under another name, synced to the disk, and renamed. Therefore, no matter when the
/// process or the machine stops, one of the two files contains a complete state. Local. Every error is an
/// IoError, or an InputError for a file that is not a state, and names the file.
class StateFolder {
 public:
  static constexpr const char* file_name = "evenkeel-state.json";
  static constexpr const char* previous_name = "evenkeel-state.previous.json";

  /// Creates the folder if it does not exist, and removes leftovers of interrupted writes. Throws IoError if
  /// another run has the lock.
  StateFolder(std::filesystem::path folder, const RunIdentity& run);

  /// Returns the last written state, or nullopt if there is none yet. Throws InputError for a damaged state,
  /// with the previous state's name.
  [[nodiscard]] std::optional<ServiceState> read() const;
  void write(const ServiceState& state);

  [[nodiscard]] std::string path() const { return (folder_ / file_name).string(); }

 private:
  void remove_leftovers() const;

  std::filesystem::path folder_;
  std::optional<RunLock> lock_;
  std::string last_;  // text of the last written state
};

/// Returns the state in a file. Throws the errors of parse_state(), and IoError. Never reads more than a
/// state can contain.
[[nodiscard]] ServiceState read_state(const std::filesystem::path& file);

}  // namespace evenkeel
