#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>

namespace evenkeel::bench {

/// `evenkeel buffer`, whose program is beside this one, as a process of its own until this object is
/// destroyed.
class BufferProcess {
 public:
  /// In this folder, with this capacity. Returns when it listens. Throws IoError where it does not.
  BufferProcess(const std::filesystem::path& folder, std::int64_t capacity);
  ~BufferProcess();
  BufferProcess(const BufferProcess&) = delete;
  BufferProcess& operator=(const BufferProcess&) = delete;

  [[nodiscard]] int port() const noexcept { return port_; }
  /// Its memory without the page cache: heap and stacks, and what is shared without a file.
  [[nodiscard]] std::int64_t memory() const;
  /// Nanoseconds of processor time of all of its threads so far.
  [[nodiscard]] std::int64_t processor_time() const;

 private:
  pid_t process_ = 0;
  int output_ = -1;
  int port_ = 0;
};

}  // namespace evenkeel::bench
