#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace evenkeel::bench {

/// A command of `evenkeel`, whose program is in the folder of this program, as a separate process until this
/// object is destroyed.
class EvenkeelProcess {
 public:
  /// Starts the command with these words; its standard output goes to the file descriptor `output`. Throws
  /// IoError.
  EvenkeelProcess(std::vector<std::string> words, int output);
  ~EvenkeelProcess();
  EvenkeelProcess(const EvenkeelProcess&) = delete;
  EvenkeelProcess& operator=(const EvenkeelProcess&) = delete;

  [[nodiscard]] pid_t id() const noexcept { return id_; }

 private:
  pid_t id_ = 0;
};

/// `evenkeel buffer`, whose program is in the folder of this program, as a separate process until this object
/// is destroyed.
class BufferProcess {
 public:
  /// Uses this folder and capacity. Returns when the buffer listens. Throws IoError if it does not.
  BufferProcess(const std::filesystem::path& folder, std::int64_t capacity);
  ~BufferProcess();
  BufferProcess(const BufferProcess&) = delete;
  BufferProcess& operator=(const BufferProcess&) = delete;

  [[nodiscard]] int port() const noexcept { return port_; }
  /// Returns its memory without the page cache: heap and stacks, and memory that is shared without a file.
  [[nodiscard]] std::int64_t memory() const;
  /// Returns the nanoseconds of processor time of all of its threads so far.
  [[nodiscard]] std::int64_t processor_time() const;

 private:
  std::optional<EvenkeelProcess> process_;
  int output_ = -1;
  int port_ = 0;
};

}  // namespace evenkeel::bench
