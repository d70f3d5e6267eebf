#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "evenkeel/service/service_state.hpp"
#include "job/output/run_lock.hpp"

namespace evenkeel {

/// The folder in which a job keeps its state. One process owns it, and locks it for the lifetime of this
/// object. It contains the last state and the one before it.
///
/// A state is written to a temporary file, synced to the disk, and renamed. Therefore, no matter when the
/// process or the machine stops, one of the two files contains a complete state. Local. Every error is an
/// IoError, or an InputError for a file that is not a state, and names the file.
class StateFolder {
 public:
  static constexpr const char* file_name = "evenkeel-state.json";
  static constexpr const char* previous_name = "evenkeel-state.previous.json";

  /// Creates the folder if it does not exist, and removes leftovers of interrupted writes. Throws IoError if
  /// another run has the lock.
  StateFolder(std::filesystem::path folder, const RunIdentity& run);

  /// Returns the last state that was written, or nullopt if there is none yet. If the last state is damaged,
  /// throws InputError; its hint names the file of the previous state, if there is one.
  [[nodiscard]] std::optional<ServiceState> read() const;
  void write(const ServiceState& state);

  [[nodiscard]] std::string file_path() const { return (folder_ / file_name).string(); }

 private:
  void remove_leftovers() const;

  std::filesystem::path folder_;
  std::optional<RunLock> lock_;
  std::string last_text_;  // text of the last state that was written
};

/// Reads a state from a file, but never more bytes than a state can have. Throws IoError if the file cannot
/// be read, and InputError if it does not contain a valid state.
[[nodiscard]] ServiceState read_state(const std::filesystem::path& file);

}  // namespace evenkeel
