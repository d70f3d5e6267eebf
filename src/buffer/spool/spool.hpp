#pragma once

#include <condition_variable>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "buffer/job_client.hpp"

namespace evenkeel {

/// A folder into which producers rename finished files of samples, for clusters without a network from them
/// to the buffer. Files are sent to a buffer's door, in the order of their names, and removed once it has
/// acknowledged them. Whatever is killed in between, a file that is there is sent, again if need be, and the
/// buffer knows the samples that it has. While it is full, files wait.
///
/// Files are what ends in .jsonl, .jsonl.gz, .jsonl.zst or .safetensors, in upper or lower case, and does not
/// begin with a dot; others are left alone and reported once. A file that cannot be read or that the server
/// refuses is renamed to NAME.refused, and NAME.refused.txt says why. A file called `end` says that no more
/// will come: it is obeyed when there is no other.
///
/// The folder is looked at twice a second: the kernel does not tell of files that come from other machines.
class Spool {
 public:
  using Say = std::function<void(const std::string& line)>;

  /// Has the folder for itself from here on. `say` gets what a log should have. Throws IoError if there is no
  /// such folder, it cannot be written, or another process takes its files.
  Spool(std::filesystem::path folder, Say say);
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  /// Sends files to this door, which has to outlive it, from here on. Once.
  void begin(JobClient door);

 private:
  void lock();
  void take_until_stopped();
  void take_what_there_is();
  [[nodiscard]] std::vector<std::string> files();
  void report_ignored(const std::string& name);
  /// False if it has to wait.
  bool take(const std::string& name);
  bool send(const std::string& name);
  void refuse(const std::string& name, const std::string& why);
  void end_if_told();
  bool remove(const std::string& name);
  void say_once(const std::string& line);
  [[nodiscard]] bool is_stopping() const;

  const std::filesystem::path folder_;
  std::optional<JobClient> door_;
  const Say say_;
  int lock_ = -1;
  std::set<std::string> done_;     // that could not be removed
  std::set<std::string> ignored_;  // reported
  std::string said_;
  mutable std::mutex mutex_;  // what follows
  std::condition_variable stopped_;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace evenkeel
